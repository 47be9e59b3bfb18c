#include "sparse.h"

namespace tilewright::vgpu {
namespace {

// Four bits of metadata name the kept elements of one piece of a row.
struct Piece {
  int kept;  // elements
  int span;  // elements, with those that are zero
};

constexpr Piece piece_of(Format format) {
  switch (format) {
    case Format::tf32: return {1, 2};
    case Format::s4:
    case Format::u4: return {4, 8};
    default: return {2, 4};
  }
}

// The k of the kept elements; false where the bits mean nothing.
bool unpack_piece(const Piece& piece, uint32_t bits, bool ordered, uint8_t base, uint8_t* k) {
  if (piece.kept == 1) {
    *k = static_cast<uint8_t>(base + (bits == 0xe));
    return bits == 0xe || bits == 0x4;
  }
  const uint32_t first = bits & 3, second = bits >> 2;
  const int run = piece.kept / 2;  // neighbours that are kept together
  for (int e = 0; e < run; ++e) {
    k[e] = static_cast<uint8_t>(base + static_cast<int>(first) * run + e);
    k[run + e] = static_cast<uint8_t>(base + static_cast<int>(second) * run + e);
  }
  return ordered ? first < second : first != second;
}

}  // namespace

int unpack_metadata(const MetadataShape& shape, const uint32_t* words, Kept& kept) {
  const Piece piece = piece_of(shape.format);
  const int pieces = chunk_elements(shape.format) / piece.kept;  // in a chunk
  // A lane's word: eight pieces of one row, or (four pieces a chunk) four of row g and then four of row g + 8.
  const bool whole = pieces == 8;
  for (int row = 0; row < 16; ++row) {
    const int half = row >> 3;
    for (int n = 0; n < pieces * shape.chunks; ++n) {
      const int chunk = n / pieces, selector = static_cast<int>(shape.selector);
      const int place = shape.chunks == 2 ? 2 * selector + chunk : selector;
      const int lane = 4 * (row & 7) + (whole ? 2 * place + half : place);
      const uint32_t bits = words[lane] >> (4 * (n % pieces) + (whole ? 0 : 16 * half)) & 15u;
      if (!unpack_piece(piece, bits, shape.ordered, static_cast<uint8_t>(n * piece.span), kept.k[row] + n * piece.kept))
        return lane;
    }
  }
  return -1;
}

}  // namespace tilewright::vgpu
