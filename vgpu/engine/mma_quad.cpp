// mma.sync.m8n8k4 on f16: a quad pair of lanes multiplies its own matrices.
#include <cstring>

#include "mma_math.h"

namespace tilewright::vgpu {
namespace {

float half_at(const ConstLanes32* registers, int lane, int element) {
  return float_of_half(static_cast<uint16_t>(registers[element >> 1][lane] >> (element & 1) * 16));
}

// Lane that holds row (or column) `line` of quad pair `quad`.
int lane_of(int quad, int line) { return 4 * quad + (line & 3) + (line >> 2) * 16; }

// Element (row, k) of A, or (column, k) of B. `along_k`: a lane holds one line and four k, else one k and four lines.
float operand(const ConstLanes32* registers, int quad, int line, int k, bool along_k) {
  if (along_k) return half_at(registers, lane_of(quad, line), k);
  return half_at(registers, lane_of(quad, k + (line & 4)), line & 3);
}

// Where an f32 accumulator lies; f16 ones lie in the lane of their row, by column.
struct Place {
  int lane, index;
};
Place wide_place(int quad, int row, int column) {
  const int lane = lane_of(quad, (row & 4) | (column & 2) | (row & 1));
  return {lane, (column & 4) | (row & 2) | (column & 1)};
}

}  // namespace

void mma_quad(const QuadShape& shape, const ConstLanes32* a, const ConstLanes32* b, const ConstLanes32* c,
              const Lanes32* d) {
  uint32_t out[8][32] = {};
  for (int at = 0; at < 4 * 64; ++at) {
    const int quad = at >> 6, row = at >> 3 & 7, column = at & 7;
    const auto [lane, index] = wide_place(quad, row, column);
    float sum = 0;
    for (int k = 0; k < 4; ++k)
      sum += operand(a, quad, row, k, !shape.a_columns) * operand(b, quad, column, k, shape.b_columns);
    sum += shape.c_wide ? float_of_bits(c[index][lane]) : half_at(c, lane_of(quad, row), column);
    if (shape.d_wide) out[index][lane] = bits_of_float(sum);
    else out[column >> 1][lane_of(quad, row)] |= uint32_t{half_of_float(sum)} << (column & 1) * 16;
  }
  for (int index = 0; index < (shape.d_wide ? 8 : 4); ++index) std::memcpy(d[index], out[index], sizeof out[index]);
}

}  // namespace tilewright::vgpu
