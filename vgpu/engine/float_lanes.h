// Vector loops of the hottest float instructions, one version per vector unit.
#pragma once

namespace tilewright::vgpu {

void lanes_add(float* d, const float* a, const float* b);
void lanes_sub(float* d, const float* a, const float* b);
void lanes_mul(float* d, const float* a, const float* b);
void lanes_fma(float* d, const float* a, const float* b, const float* c);
void lanes_div(float* d, const float* a, const float* b);
void lanes_max(float* d, const float* a, const float* b);
void lanes_min(float* d, const float* a, const float* b);
void lanes_exp2(float* d, const float* a);

}  // namespace tilewright::vgpu
