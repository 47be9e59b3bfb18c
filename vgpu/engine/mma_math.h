// mma.sync on one warp's fragment registers; a register is 32 lanes of 32 bits.
#pragma once

#include "matrix_tile.h"
#include "numeric.h"

namespace tilewright::vgpu {

struct MmaShape {
  Format a, b;
  Accumulator accumulator;
  uint8_t chunks;  // 16-byte steps of k: 1 or 2
  bool saturate;   // s32 accumulators clamp instead of wrapping
};

// m16n8k(16 * chunks bytes). a: 2 * chunks registers, b: chunks, c and d: 4 (f32, s32) or 2 (f16). d may alias c.
void mma_m16n8(const MmaShape& shape, const ConstLanes32* a, const ConstLanes32* b, const ConstLanes32* c,
               const Lanes32* d);

// m16n8k128 and k256 on single bits: popcount of (a op b) added to s32. `conjunction` chooses and, else xor.
void mma_m16n8_b1(int chunks, bool conjunction, const ConstLanes32* a, const ConstLanes32* b, const ConstLanes32* c,
                  const Lanes32* d);

// f64: m8n8k4 (rows = 8) and m16n8k4/k8/k16 (rows = 16), a chain of fma in the order of k. A register is 32 lanes of 64
// bits.
void mma_f64(int rows, int depth, Round rounding, const double* const* a, const double* const* b,
             const double* const* c, double* const* d);

// f16: four products m8n8k4, each of the threads of two quads (lanes 4q..4q+3 and 16 + 4q..). `a_columns`, `b_columns`:
// the layout of the operand. c and d: 4 registers of f16 pairs, or 8 of f32 where the flag is set.
struct QuadShape {
  bool a_columns, b_columns, c_wide, d_wide;
};
void mma_quad(const QuadShape& shape, const ConstLanes32* a, const ConstLanes32* b, const ConstLanes32* c,
              const Lanes32* d);

}  // namespace tilewright::vgpu
