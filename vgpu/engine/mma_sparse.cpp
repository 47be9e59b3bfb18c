// mma.sp: A holds half of its elements, the metadata says which.
#include "collective.h"
#include "mma_math.h"
#include "registry.h"
#include "sparse.h"

namespace tilewright::vgpu {
namespace {

struct SparseProduct {
  Format a, b;
  int chunks;  // of A; B has twice as many
};

TILEWRIGHT_CLONES void multiply_sparse(const SparseProduct& p, const ConstLanes32* a, const ConstLanes32* b,
                                      const Kept& kept, float* tile) {
  const int elements = chunk_elements(p.a);
  alignas(64) float a_panel[16 * kMaxDepth], b_panel[8 * 2 * kMaxDepth], rows[8 * kMaxChunkElements];
  for (int half = 0; half < 2 * p.chunks; ++half) decode_any(p.a, a[half], 8, a_panel + half * 8 * elements);
  for (int chunk = 0; chunk < 2 * p.chunks; ++chunk) {
    decode_any(p.b, b[chunk], 8, rows);
    transpose_any(elements, rows, 8, b_panel + chunk * elements * 8);
  }
  multiply_kept<8>(a_panel, elements, p.chunks, b_panel, kept, tile);
}

// imm: format of A, format of B, accumulator, chunks of A, saturate, ordered, selector. ops: D, A, B, C, metadata.
Step mma_sparse(Warp& w, const Instr& i, Mask m) {
  if (!whole_warp(w, i, m)) return Step::fault;
  const SparseProduct product{static_cast<Format>(i.imm[0]), static_cast<Format>(i.imm[1]), static_cast<int>(i.imm[3])};
  const auto accumulator = static_cast<Accumulator>(i.imm[2]);
  const int results = accumulator == Accumulator::f16 ? 2 : 4;
  const uint32_t* op = i.ops;
  ConstLanes32 a[4], b[4], c[4];
  Lanes32 d[4];
  for (int k = 0; k < results; ++k) d[k] = w.r32(*op++);
  for (int k = 0; k < 2 * product.chunks; ++k) a[k] = w.r32(*op++);
  for (int k = 0; k < 2 * product.chunks; ++k) b[k] = w.r32(*op++);
  for (int k = 0; k < results; ++k) c[k] = w.r32(*op++);
  Kept kept;
  if (!read_metadata(w, i, {product.a, product.chunks, static_cast<uint32_t>(i.imm[6]), i.imm[5] != 0}, *op, kept))
    return Step::fault;
  alignas(64) float tile[16 * 8];
  multiply_sparse(product, a, b, kept, tile);
  if (accumulator == Accumulator::f32) add_group_f32(tile, 8, c, d);
  else add_group(accumulator, i.imm[4] != 0, tile, 8, c, d);
  return Step::next;
}

}  // namespace

bool read_metadata(Warp& w, const Instr& i, const MetadataShape& shape, uint32_t op, Kept& kept) {
  const uint32_t* words = w.r32(op);
  const int lane = unpack_metadata(shape, words, kept);
  if (lane < 0) return true;
  report(w, i, Kind::illegal, 1u << lane,
         "metadata " + hex(words[lane]) + " of a sparse matrix: " +
             (shape.format == Format::tf32 ? "four bits are 0b0100 or 0b1110"
              : shape.ordered              ? "the two indices in four bits must ascend"
                                           : "the two indices in four bits must differ"));
  return false;
}

void register_mma_sparse(Registry& r) { r.add("mma.sp", mma_sparse); }

}  // namespace tilewright::vgpu
