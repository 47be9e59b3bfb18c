// Runs warps, blocks and the grid.
#pragma once

#include "launch.h"
#include "program.h"

namespace tilewright::vgpu {

// Runs the ready path with the lowest pc until it parks, leaves or `quantum` instructions ran. False: nothing ready.
bool run_warp(Warp& w, uint64_t quantum);
bool warp_done(const Warp& w);
// Lanes of `lanes` leave the kernel (exit, or ret of the entry); releases barriers that waited only for them.
void leave(Warp& w, Mask lanes);
// Readies the held paths of `lanes` that wait for `what`.
void release(Warp& w, Mask lanes, const char* what);
// Runs one instruction of the path that comes next; nullptr: nothing ready.
const Instr* step_warp(Warp& w);
// Runs every block of all grids over the host threads.
void run_grids(Run& run);
// Lanes that left the kernel are not waited for (barrier.cpp): barriers of the block, and of the warp.
void recheck_barriers(Block& b);
void recheck_warp(Warp& w);
void recheck_cluster(Block& b);
// What the paths of a block wait for, and the first of them (deadlock.cpp).
std::string waiting_text(Block& b);
Site first_wait(const Block& b);
Site wait_cause(Block& b);  // who announced bytes that do not come
// Wait::what of a path in a loop that repeats itself. `where`: host address that the loop reads, 0 = none; `detail`:
// the instruction that reads it.
inline constexpr char kSpin[] = "memory";

Step op_bra(Warp& w, const Instr& i, Mask m);

}  // namespace tilewright::vgpu
