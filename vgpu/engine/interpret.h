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
// Runs every block of the grid over the host threads.
void run_grid(Launch& launch);
// Lanes that left the kernel are not waited for (barrier.cpp): barriers of the block, and of the warp.
void recheck_barriers(Block& b);
void recheck_warp(Warp& w);
void recheck_cluster(Block& b);
// Reports what every path of a stuck block waits for (deadlock.cpp).
void report_deadlock(Block& b);

Step op_bra(Warp& w, const Instr& i, Mask m);

}  // namespace tilewright::vgpu
