// Video instructions: scalar vadd vsub vabsdiff vmin vmax vshl vshr vset vmad, and the pairs and quads of them.
#include <algorithm>

#include "lanes.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

using Wide = __int128;  // holds a 33-bit value shifted by 32

enum Kind : int64_t { kAdd, kSub, kAbsdiff, kMin, kMax, kShl, kShr, kMad, kSet, kAverage };
enum Secondary : int64_t { kNone, kPlus, kLeast, kMost };

// Bits of `word` from `at` on, extended.
Wide field(uint32_t word, int at, int bits, bool is_signed) {
  const uint32_t moved = word >> at << (32 - bits);
  return is_signed ? Wide{static_cast<int32_t>(moved) >> (32 - bits)} : Wide{moved >> (32 - bits)};
}

// Selector numbers of the decoder: 0 the word, 1-4 a byte, 5-6 a half.
int part_at(int64_t part) { return part == 0 ? 0 : static_cast<int>(part < 5 ? 8 * (part - 1) : 16 * (part - 5)); }
int part_bits(int64_t part) { return part == 0 ? 32 : part < 5 ? 8 : 16; }

Wide part_of(uint32_t word, int64_t part, bool is_signed) {
  return field(word, part_at(part), part_bits(part), is_signed);
}

Wide clamp(Wide x, int bits, bool is_signed) {
  const Wide one = 1, low = is_signed ? -(one << (bits - 1)) : 0;
  const Wide high = (one << (is_signed ? bits - 1 : bits)) - 1;
  return std::clamp(x, low, high);
}

bool holds(int64_t comparison, Wide a, Wide b) {
  switch (comparison) {
    case 0: return a == b;
    case 1: return a != b;
    case 2: return a < b;
    case 3: return a <= b;
    case 4: return a > b;
    default: return a >= b;
  }
}

// `extra`: the comparison, or whether a shift amount wraps.
Wide primary(int64_t kind, Wide a, Wide b, int64_t extra) {
  const int amount = static_cast<int>(extra ? b & 31 : std::min<Wide>(b, 32));
  switch (kind) {
    case kAdd: return a + b;
    case kSub: return a - b;
    case kAbsdiff: return a < b ? b - a : a - b;
    case kMin: return std::min(a, b);
    case kMax: return std::max(a, b);
    case kShl: return a * (Wide{1} << amount);
    case kShr: return a >> amount;
    case kAverage: return a + b >= 0 ? (a + b + 1) >> 1 : (a + b) >> 1;
    default: return holds(extra, a, b);
  }
}

Wide combine(int64_t secondary, Wide x, Wide c) {
  switch (secondary) {
    case kPlus: return x + c;
    case kLeast: return std::min(x, c);
    case kMost: return std::max(x, c);
    default: return x;
  }
}

// imm: kind, signed d, a, b, saturate, secondary, parts of d, a, b, extra. ops: d, a, b and, when it is used, c.
Step video(Warp& w, const Instr& i, Mask m) {
  uint32_t* d = w.r32(i.ops[0]);
  const uint32_t *a = w.r32(i.ops[1]), *b = w.r32(i.ops[2]), *c = w.r32(i.ops[i.op_count > 3 ? 3 : 1]);
  const int64_t part = i.imm[6];
  const bool is_signed = i.imm[1] != 0;
  each_lane(m, [&](int l) {
    const Wide x = part_of(a[l], i.imm[7], i.imm[2] != 0), y = part_of(b[l], i.imm[8], i.imm[3] != 0);
    Wide r = primary(i.imm[0], x, y, i.imm[9]);
    if (i.imm[4]) r = clamp(r, part_bits(part), is_signed);
    const auto word = static_cast<uint32_t>(combine(i.imm[5], r, field(c[l], 0, 32, is_signed)));
    if (part == 0) {
      d[l] = word;
      return;
    }
    const uint32_t mask = (1u << part_bits(part)) - 1, at = static_cast<uint32_t>(part_at(part));
    d[l] = (c[l] & ~(mask << at)) | (word & mask) << at;
  });
  return Step::next;
}

// imm: signed result, a, b, saturate, parts of a, b, shift, negated product, negated c, plus one. ops: d, a, b, c.
Step vmad(Warp& w, const Instr& i, Mask m) {
  uint32_t* d = w.r32(i.ops[0]);
  const uint32_t *a = w.r32(i.ops[1]), *b = w.r32(i.ops[2]), *c = w.r32(i.ops[3]);
  const bool is_signed = i.imm[0] != 0, one = i.imm[7] || i.imm[8] || i.imm[9];
  each_lane(m, [&](int l) {
    Wide r = part_of(a[l], i.imm[4], i.imm[1] != 0) * part_of(b[l], i.imm[5], i.imm[2] != 0);
    if (i.imm[7]) r = ~r;
    r += field(i.imm[8] ? ~c[l] : c[l], 0, 32, is_signed) + (one ? 1 : 0);
    r >>= i.imm[6];
    d[l] = static_cast<uint32_t>(i.imm[3] ? clamp(r, 32, is_signed) : r);
  });
  return Step::next;
}

// imm: kind, signed d, a, b, saturate, accumulate, mask, elements of a, of b, extra, parts. ops: d, a, b, c.
Step simd(Warp& w, const Instr& i, Mask m) {
  uint32_t* d = w.r32(i.ops[0]);
  const uint32_t *a = w.r32(i.ops[1]), *b = w.r32(i.ops[2]), *c = w.r32(i.ops[3]);
  const int parts = static_cast<int>(i.imm[10]), bits = 32 / parts;
  const uint32_t ones = (1u << bits) - 1;
  each_lane(m, [&](int l) {
    const auto pick = [&](int64_t elements, int k, int64_t is_signed) {
      const int element = static_cast<int>(elements >> (4 * k) & 15);
      return field(element < parts ? a[l] : b[l], element % parts * bits, bits, is_signed != 0);
    };
    uint32_t sum = c[l], merged = c[l];
    for (int k = 0; k < parts; ++k) {
      if (!(i.imm[6] >> k & 1)) continue;
      Wide r = primary(i.imm[0], pick(i.imm[7], k, i.imm[2]), pick(i.imm[8], k, i.imm[3]), i.imm[9]);
      if (i.imm[4]) r = clamp(r, bits, i.imm[1] != 0);
      const auto word = static_cast<uint32_t>(r);
      sum += word;
      merged = (merged & ~(ones << k * bits)) | (word & ones) << k * bits;
    }
    d[l] = i.imm[5] ? sum : merged;
  });
  return Step::next;
}

}  // namespace

void register_video(Registry& r) {
  r.add("video", video);
  r.add("vmad", vmad);
  r.add("video.simd", simd);
}

}  // namespace tilewright::vgpu
