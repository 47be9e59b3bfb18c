// Instructions across the lanes of a warp: shfl, vote, match, redux, elect.
#include "lanes.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

// The lanes named by a member mask must all be here; a path that came early waits for the others.
bool together(Warp& w, Mask members, Mask m, const char* what) {
  const Mask want = members & w.exist & ~w.exited;
  if ((m & want) == want) return true;
  w.wait_on = {what, want, m};
  return false;
}

// A lane outside its own member mask has no defined result.
bool is_member(Warp& w, const Instr& i, Mask members, Mask m) {
  if ((m & ~members) == 0) return true;
  report(w, i, Kind::illegal, m & ~members, "executed by lanes that are not in its member mask " + hex(members));
  return false;
}

// Runs `body` for each set of lanes with the same member mask (operand `op`): tiles of a warp may stand at one
// instruction together. Nothing runs before every set is complete.
template <class Body>
Step each_group(Warp& w, const Instr& i, Mask m, uint32_t op, const char* what, Body body) {
  const uint32_t* named = w.r32(op);
  Mask groups[kLanes], members[kLanes];
  int count = 0;
  for (Mask left = m; left; left &= ~groups[count - 1]) {
    members[count] = named[w.first_lane(left)];
    groups[count] = 0;
    for (Mask k = left; k; k &= k - 1)
      if (named[__builtin_ctz(k)] == members[count]) groups[count] |= 1u << __builtin_ctz(k);
    ++count;
  }
  for (int k = 0; k < count; ++k) {
    if (!is_member(w, i, members[k], groups[k])) return Step::fault;
    if (!together(w, members[k], groups[k], what)) return Step::retry;
  }
  for (int k = 0; k < count; ++k) body(groups[k], members[k]);
  return Step::next;
}

enum Shuffle : int64_t { kUp, kDown, kButterfly, kIndex };

void shuffle(Warp& w, const Instr& i, Mask m) {
  uint32_t* d = w.r32(i.ops[0]);
  uint32_t a[kLanes];
  std::memcpy(a, w.r32(i.ops[2]), sizeof a);
  const uint32_t *b = w.r32(i.ops[3]), *c = w.r32(i.ops[4]);
  Mask valid = 0, missing = 0;
  each_lane(m, [&](int l) {
    const int clamp = static_cast<int>(c[l] & 31), segment = static_cast<int>(c[l] >> 8 & 31);
    const int low = l & segment, high = (l & segment) | (clamp & ~segment);
    const int distance = static_cast<int>(b[l] & 31);
    int from = 0;
    bool inside = false;
    switch (i.imm[0]) {
      case kUp: from = l - distance, inside = from >= high; break;
      case kDown: from = l + distance, inside = from <= high; break;
      case kButterfly: from = l ^ distance, inside = from <= high; break;
      default: from = low | (distance & ~segment), inside = from <= high; break;
    }
    if (!inside) from = l;
    else valid |= 1u << l;
    if (!(m >> from & 1)) missing |= 1u << l;
    d[l] = a[from];
  });
  w.set_pred(i.ops[1], valid, m);
  if (missing) report(w, i, Kind::illegal, missing, "reads a lane that does not execute it");
}

// ops: d, p, a, b, c [, members]. imm: mode, has members.
Step shfl(Warp& w, const Instr& i, Mask m) {
  if (i.imm[1]) return each_group(w, i, m, i.ops[5], "shfl.sync", [&](Mask group, Mask) { shuffle(w, i, group); });
  shuffle(w, i, m);
  return Step::next;
}

enum Vote : int64_t { kAll, kAny, kUni, kBallot };

void count_votes(Warp& w, const Instr& i, Mask m) {
  const Mask yes = w.pred(i.ops[1]) & m;
  if (i.imm[0] == kBallot) {
    uint32_t* d = w.r32(i.ops[0]);
    each_lane(m, [&](int l) { d[l] = yes; });
    return;
  }
  const bool r = i.imm[0] == kAll ? yes == m : i.imm[0] == kAny ? yes != 0 : yes == m || yes == 0;
  w.set_pred(i.ops[0], r ? kFull : 0, m);
}

// ops: d, source predicate [, members]. imm: mode, has members.
Step vote(Warp& w, const Instr& i, Mask m) {
  if (i.imm[1]) return each_group(w, i, m, i.ops[2], "vote.sync", [&](Mask group, Mask) { count_votes(w, i, group); });
  count_votes(w, i, m);
  return Step::next;
}

template <class T>
void match_group(Warp& w, const Instr& i, Mask m) {
  uint32_t* d = w.r32(i.ops[0]);
  T a[kLanes];
  std::memcpy(a, slot<T>(w, i.ops[2]), sizeof a);
  Mask same[kLanes] = {};
  for (int l = 0; l < kLanes; ++l)
    for (int k = 0; k < kLanes; ++k)
      if ((m >> k & 1) && a[k] == a[l]) same[l] |= 1u << k;
  const bool all = same[w.first_lane(m)] == m;
  each_lane(m, [&](int l) { d[l] = i.imm[0] ? (all ? m : 0) : same[l]; });
  if (i.imm[0]) w.set_pred(i.ops[1], all ? kFull : 0, m);
}

// ops: d, p, a, members. imm: all (else any).
template <class T>
Step match(Warp& w, const Instr& i, Mask m) {
  return each_group(w, i, m, i.ops[3], "match.sync", [&](Mask group, Mask) { match_group<T>(w, i, group); });
}

struct Add {
  static uint32_t f(uint32_t a, uint32_t b) { return a + b; }
};
struct And {
  static uint32_t f(uint32_t a, uint32_t b) { return a & b; }
};
struct Or {
  static uint32_t f(uint32_t a, uint32_t b) { return a | b; }
};
struct Xor {
  static uint32_t f(uint32_t a, uint32_t b) { return a ^ b; }
};
template <class T, bool kMax>
struct Extreme {
  static uint32_t f(uint32_t a, uint32_t b) {
    return (static_cast<T>(a) > static_cast<T>(b)) == kMax ? a : b;
  }
};

// ops: d, a, members.
template <class Op>
Step redux(Warp& w, const Instr& i, Mask m) {
  return each_group(w, i, m, i.ops[2], "redux.sync", [&](Mask group, Mask) {
    const uint32_t* a = w.r32(i.ops[1]);
    uint32_t r = a[w.first_lane(group)];
    for (Mask left = group & (group - 1); left; left &= left - 1) r = Op::f(r, a[__builtin_ctz(left)]);
    uint32_t* d = w.r32(i.ops[0]);
    each_lane(group, [&](int l) { d[l] = r; });
  });
}

// ops: d, p, members. The lowest member is the leader.
Step elect(Warp& w, const Instr& i, Mask m) {
  return each_group(w, i, m, i.ops[2], "elect.sync", [&](Mask group, Mask members) {
    const int leader = w.first_lane(members & w.exist & ~w.exited);
    uint32_t* d = w.r32(i.ops[0]);
    each_lane(group, [&](int l) { d[l] = static_cast<uint32_t>(leader); });
    w.set_pred(i.ops[1], 1u << leader, group);
  });
}

}  // namespace

void register_warp(Registry& r) {
  r.add("shfl", shfl);
  r.add("vote", vote);
  r.add("match.b32", match<uint32_t>);
  r.add("match.b64", match<uint64_t>);
  r.add("redux.add", redux<Add>);
  r.add("redux.and", redux<And>);
  r.add("redux.or", redux<Or>);
  r.add("redux.xor", redux<Xor>);
  r.add("redux.min.s32", redux<Extreme<int32_t, false>>);
  r.add("redux.max.s32", redux<Extreme<int32_t, true>>);
  r.add("redux.min.u32", redux<Extreme<uint32_t, false>>);
  r.add("redux.max.u32", redux<Extreme<uint32_t, true>>);
  r.add("elect", elect);
}

}  // namespace tilewright::vgpu
