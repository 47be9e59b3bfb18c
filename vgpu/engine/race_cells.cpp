// The last accesses of every 16 bytes of shared and global memory, and the check of a new one against them.
#include <algorithm>
#include <cstring>

#include "observe.h"
#include "program.h"

namespace tilewright::vgpu {
namespace {

constexpr size_t kMaxReaders = 12;  // of one cell; a writer belongs to one cluster, so some reader stays foreign to it

inline bool known(const Times& times, const Access& a) { return a.actor < times.size() && times[a.actor] >= a.clock; }

// Lanes of one warp: ordered by program order when the warp, or the path that runs, held both in between.
bool ordered_in_warp(const Probe& p, const Access& a) {
  return a.clock < p.clocks.converged_at || (p.path >> a.lane & 1);
}

inline bool ordered(const Probe& p, const Access& a) {
  if (a.clock == 0) return true;
  if (a.unit != p.self.unit) {
    const auto& foreign = p.clocks.stamp.foreign;
    if (foreign.empty()) return false;
    const auto it = foreign.find(a.unit);
    return it != foreign.end() && known(it->second, a);
  }
  if (!known(p.clocks.stamp.time, a)) return false;
  return a.warp != p.self.warp || a.actor != p.self.warp * kActors || ordered_in_warp(p, a);
}

bool both_strong(const Probe& p, const Access& a) {
  if (!(a.flags & p.self.flags & kStrong)) return false;
  return std::min(a.flags, p.self.flags) >> kScopeShift >= static_cast<uint32_t>(needed_scope(p, a));
}

// Whether a store writes what is there already: whichever of two such writes comes last, the result is the same.
bool silent(const Probe& p, uint64_t at, uint32_t bytes) {
  if (!p.value_ops) return false;
  uint64_t from = std::max(at, p.start);
  for (; from < at + bytes; ++from) {
    const uint64_t offset = from - p.start;
    const uint32_t op = p.value_ops[offset / p.element];
    const auto* source = reinterpret_cast<const uint8_t*>(p.w.file + op) + p.self.lane * (p.wide ? 8u : 4u);
    if (source[offset % p.element] != *reinterpret_cast<const uint8_t*>(from)) return false;
  }
  return true;
}

CellExtra& extra_of(Cell& c, std::deque<CellExtra>& extras) {
  if (!c.extra) c.extra = &extras.emplace_back();
  return *c.extra;
}

void check_read(Probe& p, const Cell& c, uint64_t at, uint32_t bytes) {
  if (!ordered(p, c.write)) {
    if (!both_strong(p, c.write)) report_race(p, c.write, true, at, bytes);
  } else if (p.async_proxy && c.write.clock && c.write.unit == p.self.unit && p.unit.generic(c.write.actor) &&
             !known(p.clocks.stamp.fenced, c.write)) {
    report_unfenced(p, c.write, at);
  }
}

void read_cell(Probe& p, Cell& c, std::deque<CellExtra>& extras, uint64_t at, uint32_t bytes) {
  const bool first = c.reads[0].by(p.self), second = c.reads[1].by(p.self);
  if ((first && c.reads[0].clock == p.self.clock) || (second && c.reads[1].clock == p.self.clock)) return;
  if (c.write.clock) check_read(p, c, at, bytes);
  if (first || (!second && ordered(p, c.reads[0]))) {
    c.reads[0] = p.self;
    return;
  }
  if (second || ordered(p, c.reads[1])) {
    c.reads[1] = p.self;
    return;
  }
  // A writer belongs to one cluster: it is foreign to one of two readers of different clusters.
  if (c.reads[0].unit != c.reads[1].unit && p.clocks.stamp.foreign.empty()) return;
  std::vector<Access>& readers = extra_of(c, extras).readers;
  for (Access& r : readers)
    if (r.by(p.self)) {
      r = p.self;
      return;
    }
  if (readers.size() < kMaxReaders || p.self.unit == c.reads[0].unit) readers.push_back(p.self);
}

void write_cell(Probe& p, Cell& c, uint64_t at, uint32_t bytes) {
  if (!ordered(p, c.write) && !both_strong(p, c.write) && !silent(p, at, bytes))
    report_race(p, c.write, true, at, bytes);
  for (const Access& r : c.reads)
    if (!ordered(p, r) && !both_strong(p, r)) report_race(p, r, false, at, bytes);
  if (c.extra)
    for (const Access& r : c.extra->readers)
      if (!ordered(p, r) && !both_strong(p, r)) report_race(p, r, false, at, bytes);
}

void forget(Cell& c, const Access& write) {
  c.write = write;
  c.reads[0] = c.reads[1] = Access{};
  if (c.extra) {
    c.extra->readers.clear();
    c.extra->divided = false;
  }
}

void divide(Cell& c, std::deque<CellExtra>& extras) {
  CellExtra& e = extra_of(c, extras);
  if (!e.parts) e.parts = std::make_unique<std::array<Cell, 4>>();
  for (Cell& part : *e.parts) {
    forget(part, c.write);
    part.reads[0] = c.reads[0];
    part.reads[1] = c.reads[1];
    if (!e.readers.empty()) extra_of(part, extras).readers = e.readers;
  }
  e.divided = true;
}

void touch(Probe& p, Cell& c, std::deque<CellExtra>& extras, uint32_t size, uint32_t lo, uint32_t hi, uint64_t base) {
  const bool whole = lo == 0 && hi == size;
  if (whole && !(c.extra && c.extra->divided)) {
    if (p.write) {
      write_cell(p, c, base, size);
      forget(c, p.self);
    } else {
      read_cell(p, c, extras, base, size);
    }
    return;
  }
  if (!c.extra || !c.extra->divided) divide(c, extras);
  const uint32_t quarter = size / 4;
  for (uint32_t k = lo / quarter; k * quarter < hi; ++k) {
    const uint32_t first = k * quarter;
    touch(p, (*c.extra->parts)[k], extras, quarter, std::max(lo, first) - first, std::min(hi - first, quarter),
          base + first);
  }
  if (whole && p.write) forget(c, p.self);
}

// Most accesses are of whole cells that never were divided.
inline void visit(Probe& p, Cell& c, std::deque<CellExtra>& extras, uint32_t lo, uint32_t hi, uint64_t base) {
  if (hi - lo != kCellBytes || (c.extra && c.extra->divided)) return touch(p, c, extras, kCellBytes, lo, hi, base);
  if (!p.write) return read_cell(p, c, extras, base, kCellBytes);
  write_cell(p, c, base, kCellBytes);
  forget(c, p.self);
}

}  // namespace

Scope needed_scope(const RaceUnit& own, uint32_t rank, uint32_t unit, uint32_t other_rank) {
  if (unit == own.id) return rank == other_rank ? Scope::block : Scope::cluster;
  const Run& run = *own.launch->run;
  return run.launch_of(unit).device == own.launch->device ? Scope::device : Scope::system;
}

Scope needed_scope(const Probe& p, const Access& a) {
  return needed_scope(p.unit, p.self.warp / p.unit.block_warps, a.unit, a.warp / p.unit.block_warps);
}

// Lanes mostly stay in one page: its lock is kept until the probe goes elsewhere.
Probe::~Probe() {
  if (page) page->lock.clear(std::memory_order_release);
}

Probe make_probe(RaceUnit& unit, Warp& w, const Instr& i, Actor kind, bool write) {
  WarpClocks& c = unit.of(w);
  if (c.merges != w.merges) {
    c.merges = w.merges;
    c.converged_at = unit.tick(w);
  }
  Access self;
  self.unit = unit.id;
  self.actor = unit.actor(w, kind);
  self.warp = static_cast<uint16_t>(w.block->rank * unit.block_warps + w.index);
  self.pc = static_cast<uint32_t>(&i - w.launch().program->code.data()) & 0x7fffffu;
  self.clock = kind == Actor::thread ? c.stamp.time[self.actor] : c.issued[static_cast<uint32_t>(kind)];
  return Probe(unit, w, i, c, self, w.path().mask, write);
}

void probe_chunk(Probe& p, Block& owner, uint32_t offset) {
  CellArray& array = p.unit.shared[owner.rank];
  const uint64_t base = reinterpret_cast<uint64_t>(owner.smem.data()) + offset;
  p.start = base;
  visit(p, array.cells[offset / kCellBytes], array.extras, 0, kCellBytes, base);
}

void probe_shared(Probe& p, Block& owner, uint32_t offset, uint32_t bytes) {
  CellArray& array = p.unit.shared[owner.rank];
  const uint32_t end = offset + bytes;
  const auto host = reinterpret_cast<uint64_t>(owner.smem.data());
  p.start = host + offset;
  for (uint32_t at = offset; at < end;) {
    const uint32_t index = at / kCellBytes, base = index * kCellBytes;
    const uint32_t stop = std::min(end - base, kCellBytes);
    visit(p, array.cells[index], array.extras, at - base, stop, host + base);
    at = base + stop;
  }
}

namespace {

bool enter_page(Probe& p, uint64_t address) {
  const uint64_t number = address / GlobalPage::kBytes;
  GlobalPage* page = p.w.launch().run->shadow->page(address, p.unit.of(p.w).area_hint);
  if (p.page) p.page->lock.clear(std::memory_order_release);
  p.page = page;
  p.page_number = number;
  if (!page) return false;
  while (page->lock.test_and_set(std::memory_order_acquire)) {
  }
  return true;
}

}  // namespace

void probe_global(Probe& p, uint64_t address, uint64_t bytes) {
  p.start = address;
  const uint64_t end = address + bytes;
  for (uint64_t at = address; at < end;) {
    const uint64_t page_end = std::min(end, (at / GlobalPage::kBytes + 1) * GlobalPage::kBytes);
    // Two allocations may share a page of addresses.
    const bool inside = p.page && p.page_number == at / GlobalPage::kBytes && at >= p.page->lo && page_end <= p.page->hi;
    if (!inside && !enter_page(p, at)) return;
    GlobalPage& page = *p.page;
    while (at < page_end) {
      const uint64_t base = at / kCellBytes * kCellBytes;
      const auto stop = static_cast<uint32_t>(std::min<uint64_t>(page_end - base, kCellBytes));
      visit(p, page.cells[base % GlobalPage::kBytes / kCellBytes], page.extras, static_cast<uint32_t>(at - base), stop,
            base);
      at = base + stop;
    }
  }
}

namespace {

// Calls visit(cell, its offset, its bytes) for a cell or, when it is divided, its parts.
template <class Visit>
void for_parts(const Cell& c, uint32_t offset, uint32_t bytes, Visit& visit) {
  if (!c.extra || !c.extra->divided) return visit(c, offset, bytes);
  for (uint32_t k = 0; k < 4; ++k) for_parts((*c.extra->parts)[k], offset + k * bytes / 4, bytes / 4, visit);
}

}  // namespace

void check_exit(RaceUnit& unit, Warp& w, const Instr& i, const Stamp& known_here) {
  Probe p = make_probe(unit, w, i, Actor::thread, true);
  const uint32_t threads = unit.block_warps * static_cast<uint32_t>(unit.shared.size()) * kActors;
  const auto base = reinterpret_cast<uint64_t>(w.block->smem.data());
  const auto check = [&](const Access& a, bool writes, uint32_t offset) {
    const bool other = a.actor >= threads || a.warp / unit.block_warps != w.block->rank;
    if (a.clock && other && !known(known_here.time, a)) report_outlived(p, a, writes, base + offset);
  };
  auto visit = [&](const Cell& c, uint32_t offset, uint32_t) {
    check(c.write, true, offset);
    for (const Access& a : c.reads) check(a, false, offset);
    if (c.extra)
      for (const Access& a : c.extra->readers) check(a, false, offset);
  };
  const CellArray& array = unit.shared[w.block->rank];
  for (uint32_t k = 0; k < array.cells.size(); ++k) for_parts(array.cells[k], k * kCellBytes, kCellBytes, visit);
}

void probe_memory(Probe& p, const uint8_t* address, uint32_t bytes) {
  const auto in = [&](Block& b) {
    const uint8_t* start = b.smem.data();
    if (address < start || address >= start + b.smem.size()) return false;
    probe_shared(p, b, static_cast<uint32_t>(address - start), bytes);
    return true;
  };
  if (in(*p.w.block)) return;
  for (Block* b : p.w.block->cluster)
    if (b != p.w.block && in(*b)) return;
  probe_global(p, reinterpret_cast<uint64_t>(address), bytes);
}

}  // namespace tilewright::vgpu
