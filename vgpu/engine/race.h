// Race detection by vector clocks (FastTrack: Flanagan and Freund, PLDI 2009).
//
// Actors of a cluster: for each warp its threads and its four asynchronous units (cp.async, wgmma, and the reading and
// the writing of bulk stores), and each mbarrier for the transfers that complete on it. An operation of an
// asynchronous actor starts after what its issuer knew, and is known to those who learn its number: at a group's wait,
// or with the phase of its mbarrier. Lanes of a warp share a clock: accesses in program order are ordered when the warp
// converged in between.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "launch.h"

namespace tilewright::vgpu {

enum class Actor : uint8_t { thread, cp_async, wgmma, bulk_read, bulk_write };
constexpr uint32_t kActors = 5;

using Times = std::vector<uint32_t>;  // by actor of the cluster

// What is known at some place: for every actor the number of its last operation that happened before. `fenced`: the
// same for generic writes made visible to the async proxy. `foreign`: actors of other clusters of the grid.
struct Stamp {
  uint32_t unit = 0;
  bool empty = true;
  Times time, fenced;
  std::map<uint32_t, Times> foreign;

  void join(const Stamp& other);
  void clear();
};

// Who an operation synchronises with: an instruction's scope, or the least scope that two threads need.
enum class Scope : uint8_t { block, cluster, device, system };
inline Scope scope_of(const Instr& i) { return static_cast<Scope>(i.traits >> 3 & 3); }
const char* scope_name(Scope s);  // ".gpu"

constexpr uint32_t kStrong = 1;  // atomic, relaxed or volatile: two of them do not race when their scopes suffice
constexpr uint32_t kAtomic = 2;
constexpr uint32_t kScopeShift = 2;  // Scope, of a strong access

// One access, as remembered for a location. Clock 0: none.
struct Access {
  uint32_t clock = 0;
  uint32_t unit = 0;
  uint16_t actor = 0;
  uint16_t warp = 0;  // rank * warps of a block + index
  uint32_t pc : 23;
  uint32_t lane : 5;
  uint32_t flags : 4;

  Access() : pc(0), lane(0), flags(0) {}
  bool by(const Access& a) const { return unit == a.unit && actor == a.actor; }
};
static_assert(sizeof(Access) == 16, "four words");

struct CellExtra;

// 16, 4 or 1 bytes of memory: the last write and the reads since. Divided when an access touched only a part.
struct alignas(64) Cell {
  Access write, reads[2];
  CellExtra* extra = nullptr;
};

struct CellExtra {
  std::vector<Access> readers;  // further reads, not ordered with `reads`
  std::unique_ptr<std::array<Cell, 4>> parts;
  bool divided = false;
};

constexpr uint32_t kCellBytes = 16;

struct CellArray {
  std::vector<Cell> cells;
  std::deque<CellExtra> extras;
};

// What threads that release through one location know; `scope`: of the store, or of the fence before it if narrower.
struct Release {
  Stamp stamp;
  uint32_t unit = 0;
  uint32_t rank = 0;   // of the block
  bool mixed = false;  // of several blocks of the device
  Scope scope = Scope::device;
  uint32_t line = 0;  // of the instruction that has that scope
};
struct Flag {
  std::vector<Release> releases;
  uint64_t version = 0;  // of a count of all changes
};

// A release that was seen through a flag but not acquired: its scope, or that of the acquire, is too narrow.
struct Narrow {
  Scope needed, scope;
  bool by_release;
  uint32_t line;
};

struct GlobalPage {
  static constexpr uint32_t kBytes = 4096;
  std::atomic_flag lock = ATOMIC_FLAG_INIT;
  uint64_t lo = 0, hi = 0;  // of the allocation
  Cell cells[kBytes / kCellBytes];
  std::deque<CellExtra> extras;
};

// Shadow of the global memory of all grids, filled on demand, shared by the host threads.
class GlobalShadow {
 public:
  explicit GlobalShadow(const Run& run);
  ~GlobalShadow();
  GlobalShadow(const GlobalShadow&) = delete;
  GlobalShadow& operator=(const GlobalShadow&) = delete;
  // The page of an address, or nullptr when it lies in no range of the run. `hint` remembers the range.
  GlobalPage* page(uint64_t address, uint32_t& hint);

  std::mutex mutex;  // of `flags`
  std::unordered_map<uint64_t, Flag> flags;
  uint64_t flag_version = 0;
  std::atomic<bool> any_flag{false};

 private:
  struct Area {
    uint64_t lo, hi, first_page;
    std::vector<std::atomic<GlobalPage*>> pages;
  };
  std::deque<Area> areas_;
};

// What a fence releases through relaxed stores behind it.
struct ReleaseFence {
  Stamp stamp;
  const Instr* instr = nullptr;
};

struct WarpClocks {
  Stamp stamp;
  uint32_t issued[kActors] = {};
  std::vector<uint32_t> commits[kActors];
  // At the last fence of each scope that none of a wider scope followed: a later fence of a narrower scope takes nothing
  // from what a wider one releases.
  std::array<ReleaseFence, 4> released;
  // What a release of scope `least` or wider knows, or nullptr.
  const ReleaseFence* released_from(Scope least) const;
  std::array<Stamp, 4> pending;       // seen by relaxed reads, by the scope needed; acquired by the next fence
  std::map<uint32_t, Narrow> narrow;  // by releasing cluster
  // What the last strong read learnt: a loop reads the same again and again.
  const Instr* last_read = nullptr;
  uint64_t last_at = 0, last_version = 0;
  uint32_t merges = 0;        // Warp::merges when last looked at
  uint32_t converged_at = 1;  // own accesses with an older clock are ordered before every lane
  uint32_t area_hint = 0;
};

// A place in the program order of an actor.
struct Moment {
  uint16_t actor = 0;
  uint32_t clock = 0;
  bool before(const Times& times) const { return actor < times.size() && times[actor] >= clock; }
};

struct MBarrierClocks {
  uint16_t actor = 0;
  Moment initialised;
  int32_t warp = -1, lane = -1;  // that initialised it
  uint32_t phase = 0;
  Stamp arriving, done;
};

// The clocks of one cluster. Run by one host thread.
struct RaceUnit {
  const Launch* launch = nullptr;
  uint32_t id = 0;
  uint32_t block_warps = 0;
  std::vector<WarpClocks> warps;          // rank * block_warps + index
  std::deque<CellArray> shared;          // by rank
  std::vector<std::array<Stamp, 16>> barriers;
  Stamp cluster_arriving, cluster_done;
  std::map<uint64_t, MBarrierClocks> mbarriers;  // rank << 32 | offset
  std::unordered_map<uint64_t, Flag> flags;      // of shared memory
  uint64_t flag_version = 0;
  uint32_t actors = 0, capacity = 0;
  std::unordered_map<uint32_t, uint32_t> reported;  // by pc

  void reset(Launch& l, uint32_t unit, const std::vector<std::unique_ptr<Block>>& blocks);
  WarpClocks& of(const Warp& w) { return warps[w.block->rank * block_warps + w.index]; }
  uint16_t actor(const Warp& w, Actor kind) const {
    return static_cast<uint16_t>((w.block->rank * block_warps + w.index) * kActors + static_cast<uint32_t>(kind));
  }
  bool generic(uint16_t a) const { return a < block_warps * shared.size() * kActors && a % kActors < 2; }
  MBarrierClocks& mbarrier(const Block& owner, uint32_t address);
  uint32_t tick(const Warp& w) { return ++of(w).stamp.time[actor(w, Actor::thread)]; }
  // `from` happened before what the warp does next.
  void acquire(const Warp& w, const Stamp& from);
  void release_into(const Warp& w, Stamp& to) {
    to.join(of(w).stamp);
    tick(w);
  }
};

// One access under way.
struct Probe {
  RaceUnit& unit;
  Warp& w;
  const Instr& i;
  const WarpClocks& clocks;
  Access self;
  Mask path = 0;
  bool write = false;
  bool async_proxy = false;
  // A store's registers: element bytes, whether 64 bits wide, slots. nullptr: unknown values.
  const uint32_t* value_ops = nullptr;
  uint32_t element = 0;
  bool wide = false;
  uint64_t start = 0;  // host address of the access
  GlobalPage* page = nullptr;  // locked by this probe
  uint64_t page_number = 0;

  Probe(RaceUnit& u, Warp& warp, const Instr& instr, const WarpClocks& c, const Access& a, Mask lanes, bool writes)
      : unit(u), w(warp), i(instr), clocks(c), self(a), path(lanes), write(writes) {}
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;
  ~Probe();
};

// The least scope through which two threads, or blocks, synchronise.
Scope needed_scope(const RaceUnit& own, uint32_t rank, uint32_t unit, uint32_t other_rank);
Scope needed_scope(const Probe& p, const Access& a);
Probe make_probe(RaceUnit& unit, Warp& w, const Instr& i, Actor kind, bool write);
// Checks and remembers an access to [address, address + bytes) of host memory: shared memory of a block of the
// cluster, or global memory; anything else is private.
void probe_memory(Probe& p, const uint8_t* address, uint32_t bytes);
void probe_shared(Probe& p, Block& owner, uint32_t offset, uint32_t bytes);
// 16 bytes at a multiple of 16.
void probe_chunk(Probe& p, Block& owner, uint32_t offset);
void probe_global(Probe& p, uint64_t address, uint64_t bytes);
void report_race(Probe& p, const Access& other, bool other_writes, uint64_t at, uint32_t bytes);
void report_unfenced(Probe& p, const Access& other, uint64_t at);
// Reports an access to the shared memory of the warp's block by others that is not among what the block knows.
void check_exit(RaceUnit& unit, Warp& w, const Instr& i, const Stamp& known);
void report_outlived(Probe& p, const Access& other, bool other_writes, uint64_t at);

}  // namespace tilewright::vgpu
