#include "counters.h"

#include <algorithm>

#include "program.h"

namespace tilewright::vgpu {
namespace {

constexpr uint32_t kBanks = 32, kBankBytes = 4;
constexpr uint64_t kSectorBytes = 32;

struct Banks {
  uint32_t count[kBanks] = {};
  uint64_t word[kBanks][kBanks];
  uint32_t deepest = 0;

  void add(uint64_t w) {
    const uint64_t bank = w % kBanks;
    uint32_t& n = count[bank];
    for (uint32_t k = 0; k < n; ++k)
      if (word[bank][k] == w) return;
    word[bank][n++] = w;
    deepest = std::max(deepest, n);
  }
};

// A pass serves 32 lanes of at most 4 bytes, 16 lanes of 8 or 8 lanes of 16. Lanes that read one word share it.
void count_banks(Tally& t, Mask m, const uint64_t* at, uint32_t bytes) {
  const int lanes = bytes <= 4 ? 32 : bytes <= 8 ? 16 : 8;
  for (int first = 0; first < kLanes; first += lanes) {
    Banks banks;
    for (int l = first; l < first + lanes; ++l)
      if (m >> l & 1)
        for (uint64_t word = at[l] / kBankBytes; word * kBankBytes < at[l] + bytes; ++word) banks.add(word);
    if (!banks.deepest) continue;
    ++t.phases;
    t.wavefronts += banks.deepest;
  }
}

void count_sectors(Tally& t, Mask m, const uint64_t* at, uint32_t bytes) {
  uint64_t seen[2 * kLanes];
  size_t n = 0;
  for (; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    for (uint64_t s = at[l] / kSectorBytes; s * kSectorBytes < at[l] + bytes; ++s)
      if (std::find(seen, seen + n, s) == seen + n) seen[n++] = s;
  }
  ++t.requests;
  t.sectors += n;
}

// Offset in the shared memory of a block of the cluster, or UINT64_MAX.
uint64_t shared_offset(const Warp& w, const uint8_t* at) {
  for (const Block* b : w.block->cluster)
    if (at >= b->smem.data() && at < b->smem.data() + b->smem.size()) return static_cast<uint64_t>(at - b->smem.data());
  return UINT64_MAX;
}

bool is_local(const Warp& w, const uint8_t* at) {
  return at >= w.local.data() && at < w.local.data() + w.local.size();
}

void count_shared(Observer& o, Tally& t, Mask m, const uint64_t* at, uint32_t bytes) {
  if (!m) return;
  t.shared_bytes += static_cast<uint64_t>(__builtin_popcount(m)) * bytes;
  if (o.watch & kWatchBanks) count_banks(t, m, at, bytes);
}

void count_global(Observer& o, Tally& t, Mask m, const uint64_t* at, uint32_t bytes) {
  if (!m) return;
  t.global_bytes += static_cast<uint64_t>(__builtin_popcount(m)) * bytes;
  if (o.watch & kWatchSectors) count_sectors(t, m, at, bytes);
}

}  // namespace

void Tally::add(const Tally& t) {
  runs += t.runs;
  lanes += t.lanes;
  shared_bytes += t.shared_bytes;
  global_bytes += t.global_bytes;
  wavefronts += t.wavefronts;
  phases += t.phases;
  requests += t.requests;
  sectors += t.sectors;
}

Tally& tally_of(Observer& o, const Warp& w, const Instr& i) {
  return o.tallies[static_cast<size_t>(&i - w.launch().program->code.data())];
}

void count_access(Observer& o, Warp& w, Tally& t, Mask m, uint8_t* const* at, uint32_t bytes) {
  uint64_t address[kLanes];
  Mask shared = 0, global = 0;
  for (Mask left = m; left; left &= left - 1) {
    const int l = __builtin_ctz(left);
    const uint64_t offset = shared_offset(w, at[l]);
    if (offset != UINT64_MAX) {
      shared |= 1u << l;
      address[l] = offset;
    } else if (!is_local(w, at[l])) {
      global |= 1u << l;
      address[l] = reinterpret_cast<uint64_t>(at[l]);
    }
  }
  count_shared(o, t, shared, address, bytes);
  count_global(o, t, global, address, bytes);
}

void count_copy(Observer& o, Warp& w, const Instr& i, Mask m, const uint32_t* target, const uint8_t* const* source,
                const uint8_t* read, uint32_t size) {
  Tally& t = tally_of(o, w, i);
  uint64_t to[kLanes], from[kLanes];
  Mask reading = 0;
  for (Mask left = m; left; left &= left - 1) {
    const int l = __builtin_ctz(left);
    to[l] = target[l] & kSharedOffset;
    from[l] = reinterpret_cast<uint64_t>(source[l]);
    if (read[l]) reading |= 1u << l;
  }
  count_shared(o, t, m, to, size);
  count_global(o, t, reading, from, size);
}

void count_bulk(Observer& o, Warp& w, const Instr& i, const uint8_t* at, uint64_t bytes) {
  Tally& t = tally_of(o, w, i);
  if (shared_offset(w, at) != UINT64_MAX) {
    t.shared_bytes += bytes;
    return;
  }
  t.global_bytes += bytes;
  if (!(o.watch & kWatchSectors) || bytes == 0) return;
  const auto first = reinterpret_cast<uint64_t>(at);
  ++t.requests;
  t.sectors += (first + bytes - 1) / kSectorBytes - first / kSectorBytes + 1;
}

}  // namespace tilewright::vgpu
