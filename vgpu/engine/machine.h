// The machine: decoded instructions, warps, blocks, the launch, and the only ways to touch registers and memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "async.h"

namespace tilewright::vgpu {

constexpr int kLanes = 32;
constexpr uint32_t kSlotBytes = 128;
using Mask = uint32_t;
constexpr Mask kFull = 0xffffffffu;

struct Instr;
struct Warp;
struct Block;
struct Launch;

// What the interpreter does after a handler.
//   next   go to the following instruction
//   jump   the handler changed the paths of the warp itself (branch, exit, call)
//   retry  the warp is parked on this instruction and runs it again after Block::notify(); set Warp::wait_on first
//   hold   the path is parked behind this instruction until Block::release()
//   yield  go on behind the instruction, after the other warps had their turn
//   fault  a finding that ends the launch was reported
enum class Step : uint8_t { next, jump, retry, hold, yield, fault };

using Handler = Step (*)(Warp&, const Instr&, Mask);

// One decoded instruction. `ops` are the operands in the order of the Python plan: for a register the byte offset of
// its slot in the register file (32-bit and narrower: 32 lanes of uint32_t; 64-bit: 32 lanes of uint64_t), for a
// predicate (index << 1 | negated). Constants, special registers and sinks are slots too, so no handler tells them apart.
struct Instr {
  Handler run = nullptr;
  const uint32_t* ops = nullptr;
  const int64_t* imm = nullptr;
  int32_t guard = -1;  // predicate operand, -1 = none
  uint32_t line = 0;   // PTX line, from 1
  uint16_t op_count = 0;
  uint16_t imm_count = 0;
  uint32_t handler = 0;  // index into the registry, for names and counts
  uint64_t traits = 0;   // memory order, scope, class and FLOPs: vgpu/ptx/traits.py
};

// What a parked path waits for, kept as data and turned into text only for a deadlock report.
struct Wait {
  const char* what = "";  // "bar.sync", "mbarrier", ...
  uint64_t where = 0;     // barrier number or shared address
  uint64_t detail = 0;    // threads expected, parity ...
};

struct Saved;  // frames.h

// An active call: `entry` is the first pc of the function, `results` the (from, to, bytes) of its results.
struct Frame {
  uint32_t return_pc = 0;
  uint32_t entry = 0;
  const int64_t* results = nullptr;
  int64_t result_count = 0;
  std::shared_ptr<const Saved> saved;  // what the function takes from an earlier activation of it
};

struct Path {
  uint32_t pc = 0;
  Mask mask = 0;
  // spinning: in a loop that repeats itself until memory changes; the unit wakes it (unit.cpp).
  enum class State : uint8_t { ready, retry, held, spinning } state = State::ready;
  uint64_t event = 0;  // Block::event when it parked
  Wait wait;
  std::vector<Frame> frames;
};

enum class Mode : uint8_t { eager, lazy, skew, skew_reverse, lazy_reverse, random };

enum class Kind : uint8_t {
  out_of_bounds,
  misaligned,
  uninitialized_shared,
  uninitialized_register,
  deadlock,
  barrier,          // misuse of bar.sync / barrier: divergence, counts
  mbarrier,         // underflow, overrun, not initialised
  unfinished_work,  // tx-count or asynchronous work left at exit
  proxy_fence,      // generic write read by the async proxy without fence.proxy.async
  illegal,          // an instruction used against its rules (operands, alignment of descriptors, ...)
  assertion,        // __assertfail, trap
  runaway,          // instruction budget exhausted
  race,             // two accesses that nothing orders, one of them a write
};

// Who reads or writes shared memory: ordinary instructions (also cp.async), or TMA and wgmma.
enum class Proxy : uint8_t { generic, async };

// Shadow of a shared byte.
constexpr uint8_t kWritten = 1;  // has a value
constexpr uint8_t kDirty = 2;    // written by the generic proxy since the last fence.proxy.async

struct Warp {
  Block* block = nullptr;
  unsigned index = 0;
  Mask exist = 0;   // lanes that are threads of the block
  Mask exited = 0;
  Mask carry = 0;   // condition code of extended-precision arithmetic
  std::byte* file = nullptr;
  uint32_t* preds = nullptr;
  std::vector<Path> paths;
  size_t current = 0;  // path being run
  bool yielded = false;
  bool wrote = false;               // an atomic changed memory, or text was printed (spin.cpp resets it)
  bool read_clock = false;          // reset and read by spin.cpp
  uint64_t frozen_clock = 0;        // the time that clocks show while spin.cpp looks for a loop that repeats; 0: real
  const uint8_t* looked_at = nullptr;  // where the last load or atomic of the warp read
  uint32_t merges = 0;  // how often paths met
  uint64_t lead = 0;   // instructions run since another path of the warp had its turn
  uint64_t cluster_token[kLanes] = {};  // phase of the cluster barrier at each lane's arrival; 0: not arrived
  uint32_t stack[kLanes] = {};               // bytes of alloca in use, by lane
  uint64_t register_changes = 0;             // what setmaxnreg instructions ran, in order
  const Instr* register_change = nullptr;    // the last of them
  Wait wait_on;        // set before returning Step::retry or Step::hold
  uint64_t executed = 0;
  AsyncQueue cp_async;  // per-thread groups of cp.async
  AsyncQueue bulk;      // per-thread groups of cp.async.bulk ... bulk_group
  AsyncQueue wgmma;     // groups of wgmma.mma_async
  uint64_t wgmma_issued = 0;   // counts alike in the four warps of a warpgroup
  bool wgmma_fenced = false;   // a wgmma.fence ran
  std::vector<uint8_t> local;  // local memory, one piece a lane
  std::vector<std::byte> storage;  // behind `file`
  std::vector<uint32_t> pred_storage;
  std::vector<Mask> undefined;        // per slot: lanes that never wrote it (tracked launches)
  std::vector<Mask> undefined_preds;  // per predicate

  uint32_t* r32(uint32_t op) const { return reinterpret_cast<uint32_t*>(file + op); }
  float* f32(uint32_t op) const { return reinterpret_cast<float*>(file + op); }
  uint64_t* r64(uint32_t op) const { return reinterpret_cast<uint64_t*>(file + op); }
  Mask pred(uint32_t op) const { return preds[op >> 1] ^ (0u - (op & 1u)); }
  void set_pred(uint32_t op, Mask value, Mask lanes) const {
    uint32_t& p = preds[op >> 1];
    p = (p & ~lanes) | (value & lanes);
  }
  Path& path() { return paths[current]; }
  Launch& launch() const;
  int first_lane(Mask m) const { return __builtin_ctz(m); }
};

// A range of bytes that global accesses may touch.
struct Range {
  uint64_t lo = 0;
  uint64_t hi = 0;
  std::string name;
  bool writable = true;
};

// Lanes of a warp that stand in front of a barrier (or, for an arrival, went on).
struct Arrival {
  unsigned warp;
  Mask lanes;
  const Instr* instr;
  bool waits;
  bool whole;  // all threads of the warp at once
  Mask elsewhere;  // other lanes of the warp, in front of other instructions
};

// Who arrived on an mbarrier, for deadlock reports.
struct MBarrierArrival {
  uint32_t rank, warp;
  const Instr* instr;
  uint64_t phase;     // of the last arrival
  uint64_t arrivals;  // in that phase
};
struct MBarrierLog {
  uint64_t phase = 0;
  std::vector<MBarrierArrival> arrivals;  // one a warp
  int64_t announced = 0, transferred = 0;  // bytes, in this phase
  const Instr* announcer = nullptr;        // the last of this phase
  uint32_t rank = 0, warp = 0;
  int lane = 0;
};

// Barrier 0..15 of a block.
struct NamedBarrier {
  uint32_t expected = 0;  // threads that complete it, 0 = all live threads
  uint32_t arrived = 0;   // threads of warps that arrived as a whole, 32 each
  bool divided = false;   // some warp arrived in parts
  uint32_t threads = 0;   // threads
  std::vector<Arrival> arrivals;
  uint32_t count = 0;     // threads whose predicate holds (bar.red)
};

struct Block {
  Launch* launch = nullptr;
  uint32_t x = 0, y = 0, z = 0;
  uint32_t rank = 0;                 // in its cluster
  std::vector<Block*> cluster;       // all blocks of the cluster, by rank
  uint32_t cluster_arrived = 0;      // of the first block: the cluster barrier
  uint64_t cluster_phase = 1;
  std::vector<Warp> warps;
  std::vector<uint8_t> smem, shadow;  // shared memory and its shadow (empty: unchecked), `shared_bytes` of the launch long
  uint64_t event = 0;
  NamedBarrier barriers[16];
  std::map<uint32_t, const Instr*> mbarriers;  // initialised mbarriers by shared offset (value: their init)
  std::map<uint32_t, MBarrierLog> mbarrier_logs;
  struct Observer* observer = nullptr;  // optional checks (observe.h)
  std::deque<std::function<void()>> in_flight;  // deferred block-level asynchronous work (TMA)
  uint64_t random = 0;
  std::shared_ptr<struct PanelCache> panels;  // matrix operands shared by the warps of a warpgroup (wgmma.cpp)

  // Something happened that a parked path may wait for: every Step::retry path runs its instruction again.
  void notify() { ++event; }
  // Runs `land` now (eager modes) or when every warp is parked (lazy) or at a random time (random).
  void submit(std::function<void()> land);
};

// --- findings -------------------------------------------------------------------------------------------------
// Reports once per (kind, instruction); `lanes` are the lanes at fault. Never throws, thread safe.
void report(Warp& w, const Instr& i, Kind kind, Mask lanes, const std::string& message);
// Same, with the other access of a race.
struct Site {
  uint32_t block[3] = {};
  int32_t warp = -1, lane = -1;
  uint32_t line = 0;  // 0: none
  uint32_t launch = 0;
};
void report_pair(Warp& w, const Instr& i, Kind kind, Mask lanes, const std::string& message, const Site& other);
void report_block(Block& b, const Instr* i, Kind kind, const std::string& message);
// About what the lane at `site` waits for, and another one that waits.
void report_wait(Block& b, const Site& site, Kind kind, const std::string& message, const Site& other);
std::string hex(uint64_t value);

// --- global memory --------------------------------------------------------------------------------------------
// Host pointer of `bytes` legal bytes at the global (or generic, when it lies in no window) address, else reports and
// returns nullptr: return Step::fault then. `align` 0 = no check.
uint8_t* global_at(Warp& w, const Instr& i, int lane, uint64_t address, uint32_t bytes, uint32_t align, bool write);
// Same for a whole block (TMA): no report, nullptr when any byte is illegal.
uint8_t* global_find(Launch& launch, uint64_t address, uint64_t bytes, bool write);

// --- shared memory --------------------------------------------------------------------------------------------
// A shared address has its byte offset in bits 0-23; bits 24-31 are 0 for the own block, else cluster rank + 1.
constexpr uint32_t kSharedOffset = 0x00ffffffu;
Block* shared_owner(Block& b, uint32_t address);  // nullptr: no such rank
// Limit and alignment check; reports and returns nullptr (then return Step::fault). No shadow change.
uint8_t* shared_at(Warp& w, const Instr& i, int lane, uint32_t address, uint32_t bytes, uint32_t align);
// Checked read: also reports uninitialised bytes and, for Proxy::async, a missing proxy fence (and goes on).
const uint8_t* shared_read(Warp& w, const Instr& i, int lane, uint32_t address, uint32_t bytes, uint32_t align,
                           Proxy proxy = Proxy::generic);
// Checked write: marks the shadow. Write through the pointer at once.
uint8_t* shared_write(Warp& w, const Instr& i, int lane, uint32_t address, uint32_t bytes, uint32_t align,
                      Proxy proxy = Proxy::generic);
// For work that lands later: mark bytes that were checked with shared_at at issue.
void shared_mark(Block& b, uint32_t address, uint32_t bytes, Proxy proxy);
// Bulk shadow test of `bytes` at an own-block offset: true when every byte is written (and fenced for Proxy::async).
bool shared_ready(const Block& b, uint32_t offset, uint32_t bytes, Proxy proxy);
// Reports what shared_ready found missing.
void report_not_ready(Warp& w, const Instr& i, int lane, uint32_t address, uint32_t bytes, Proxy proxy);

// --- generic addresses ----------------------------------------------------------------------------------------
// Bits 56-63 name the window: 0 global (host address), else the low 32 bits are the address in that space.
enum class Window : uint8_t { global = 0, shared = 1, local = 2, param = 3 };
constexpr int kWindowShift = 56;
inline Window window_of(uint64_t generic) { return static_cast<Window>(generic >> kWindowShift); }

}  // namespace tilewright::vgpu
