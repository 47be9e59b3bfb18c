// Liveness and slot reuse, and the search for registers that may be read before they are written.
#include <algorithm>
#include <queue>

#include "program.h"

namespace tilewright::vgpu {
namespace {

using Bits = std::vector<uint64_t>;

void set_bit(Bits& b, uint32_t k) { b[k >> 6] |= uint64_t{1} << (k & 63); }
void clear_bit(Bits& b, uint32_t k) { b[k >> 6] &= ~(uint64_t{1} << (k & 63)); }
bool has_bit(const Bits& b, uint32_t k) { return (b[k >> 6] >> (k & 63)) & 1; }

struct BasicBlock {
  uint32_t begin, end;
  std::vector<uint32_t> next, previous;
  Bits live_in, live_out, defined_in, defined_out;
};

struct Interval {
  uint32_t reg, start, end;
};

class Analyser {
 public:
  Analyser(const std::vector<RawInstr>& raw, const std::vector<RawOperand>& ops, const std::vector<int64_t>& imms,
           const std::vector<uint8_t>& widths, uint32_t pred_count)
      : raw_(raw), ops_(ops), imms_(imms), widths_(widths), registers_(static_cast<uint32_t>(widths.size())),
        words_((registers_ + pred_count + 63) / 64), bits_(registers_ + pred_count) {
    names();
  }

  Analysis run() {
    Analysis out;
    build_blocks();
    liveness();
    out.may_read_undefined = reads_undefined();
    find_unfenced(out.unfenced);
    allocate(out);
    return out;
  }

 private:
  void names() {
    const auto& list = registry().names();
    kind_.resize(list.size(), 0);
    for (size_t k = 0; k < list.size(); ++k) {
      const std::string& n = list[k];
      if (n == "bra" || n == "brx") kind_[k] = kBranch;
      else if (n == "ret" || n == "exit" || n == "trap") kind_[k] = kLeave;
      else if (n == "call") kind_[k] = kCall;
      else if (n == "call.indirect") kind_[k] = kCallAny;
      else if (n.rfind("wgmma.wait", 0) == 0) kind_[k] = kWait;
      else if (n.rfind("wgmma.mma", 0) == 0) kind_[k] = kAsync;
      else if (n == "wgmma.fence") kind_[k] = kFence;
      else if (n == "mov.32") kind_[k] = kMove;
    }
  }

  template <class F>
  void each(const RawInstr& r, F f) const {  // f(bit, role)
    for (uint32_t k = 0; k < r.op_count; ++k) {
      const RawOperand& op = ops_[r.first_op + k];
      if (op.cls == OperandClass::r32 || op.cls == OperandClass::r64) f(op.index, op.role);
      else if (op.cls == OperandClass::pred && op.index > 1) f(registers_ + op.index, op.role);
    }
    if (r.guard >= 4) f(registers_ + static_cast<uint32_t>(r.guard >> 1), kRead);
  }

  void build_blocks() {
    const uint32_t n = static_cast<uint32_t>(raw_.size());
    std::vector<uint8_t> leader(n + 1, 0);
    leader[0] = 1;
    for (uint32_t pc = 0; pc < n; ++pc) {
      const RawInstr& r = raw_[pc];
      const uint8_t kind = kind_[r.handler];
      if (kind == kBranch)
        for (uint32_t k = 0; k < r.imm_count; ++k) leader[static_cast<uint32_t>(imms_[r.first_imm + k])] = 1;
      if (kind == kBranch || kind == kLeave) leader[pc + 1] = 1;
    }
    std::vector<uint32_t> block_of(n + 1, 0);
    for (uint32_t pc = 0; pc < n; ++pc) {
      if (leader[pc]) blocks_.push_back({pc, pc, {}, {}, {}, {}, {}, {}});
      block_of[pc] = static_cast<uint32_t>(blocks_.size() - 1);
      blocks_.back().end = pc + 1;
    }
    for (uint32_t b = 0; b < blocks_.size(); ++b) link(b, block_of, n);
  }

  void link(uint32_t b, const std::vector<uint32_t>& block_of, uint32_t n) {
    const uint32_t last = blocks_[b].end - 1;
    const RawInstr& r = raw_[last];
    const uint8_t kind = kind_[r.handler];
    auto edge = [&](uint32_t to) {
      if (to >= n) return;
      blocks_[b].next.push_back(block_of[to]);
      blocks_[block_of[to]].previous.push_back(b);
      if (to <= last) back_edges_.push_back({to, last});
    };
    if (kind == kBranch)
      for (uint32_t k = 0; k < r.imm_count; ++k) edge(static_cast<uint32_t>(imms_[r.first_imm + k]));
    const bool falls = (kind != kBranch && kind != kLeave) || r.guard >= 0;
    if (falls) edge(blocks_[b].end);
  }

  void liveness() {
    std::vector<Bits> use(blocks_.size(), Bits(words_)), kill(blocks_.size(), Bits(words_));
    for (size_t b = 0; b < blocks_.size(); ++b) {
      blocks_[b].live_in.assign(words_, 0);
      blocks_[b].live_out.assign(words_, 0);
      for (uint32_t pc = blocks_[b].begin; pc < blocks_[b].end; ++pc) {
        const RawInstr& r = raw_[pc];
        each(r, [&](uint32_t bit, uint8_t role) {
          const bool reads = (role & kRead) || r.guard >= 0;
          if (reads && !has_bit(kill[b], bit)) set_bit(use[b], bit);
        });
        if (r.guard < 0)
          each(r, [&](uint32_t bit, uint8_t role) {
            if (role & kWrite) set_bit(kill[b], bit);
          });
      }
    }
    bool changed = true;
    while (changed) {
      changed = false;
      for (size_t b = blocks_.size(); b-- > 0;) {
        BasicBlock& block = blocks_[b];
        for (uint32_t s : block.next)
          for (size_t w = 0; w < words_; ++w) block.live_out[w] |= blocks_[s].live_in[w];
        for (size_t w = 0; w < words_; ++w) {
          const uint64_t in = use[b][w] | (block.live_out[w] & ~kill[b][w]);
          changed |= in != block.live_in[w];
          block.live_in[w] = in;
        }
      }
    }
  }

  bool reads_undefined() {
    for (BasicBlock& b : blocks_) b.defined_out.assign(words_, ~uint64_t{0});
    bool changed = true, found = false;
    while (changed) {
      changed = false;
      found = false;
      for (BasicBlock& b : blocks_) {
        Bits now(words_, b.previous.empty() ? 0 : ~uint64_t{0});
        if (b.begin == 0) now.assign(words_, 0);
        else
          for (uint32_t p : b.previous)
            for (size_t w = 0; w < words_; ++w) now[w] &= blocks_[p].defined_out[w];
        found |= walk(b, now);
        changed |= now != b.defined_out;
        b.defined_out = now;
      }
    }
    return found;
  }

  // Defines what the block writes; true when it reads something undefined.
  bool walk(const BasicBlock& b, Bits& now) const {
    bool found = false;
    for (uint32_t pc = b.begin; pc < b.end; ++pc) {
      const RawInstr& r = raw_[pc];
      if (!(r.flags & kReadsUndefined))
        each(r, [&](uint32_t bit, uint8_t role) { found |= (role & kRead) && !has_bit(now, bit); });
      if (r.guard < 0)
        each(r, [&](uint32_t bit, uint8_t role) {
          if (role & kWrite) set_bit(now, bit);
        });
    }
    return found;
  }

  // --- registers of wgmma: written by another instruction behind the last fence ------------------------------------
  // A move hands on the state of its source: compilers copy accumulators around. wgmma orders its own accesses.
  void find_unfenced(std::vector<uint32_t>& found) {
    if (std::none_of(raw_.begin(), raw_.end(), [&](const RawInstr& r) { return kind_[r.handler] == kAsync; })) return;
    std::vector<Bits> out(blocks_.size(), Bits(words_));
    for (bool changed = true; changed;) {
      changed = false;
      found.clear();
      for (size_t b = 0; b < blocks_.size(); ++b) {
        Bits now(words_);
        for (const uint32_t p : blocks_[b].previous)
          for (size_t w = 0; w < words_; ++w) now[w] |= out[p][w];
        for (uint32_t pc = blocks_[b].begin; pc < blocks_[b].end; ++pc)
          if (fence_step(raw_[pc], now)) found.push_back(pc);
        changed |= now != out[b];
        out[b] = std::move(now);
      }
    }
  }

  // Registers written since the last fence, behind this instruction; whether it is a wgmma that uses one of them.
  bool fence_step(const RawInstr& r, Bits& now) const {
    const uint8_t kind = kind_[r.handler];
    if (kind == kFence) std::fill(now.begin(), now.end(), 0);
    bool used = false, copied = false;
    for (uint32_t k = 0; k < r.op_count; ++k) {
      const RawOperand& op = ops_[r.first_op + k];
      if (op.cls != OperandClass::r32) continue;
      if (kind == kAsync) used |= has_bit(now, op.index);
      if (!(op.role & kWrite)) copied |= kind == kMove && !has_bit(now, op.index);
    }
    for (uint32_t k = 0; k < r.op_count; ++k) {
      const RawOperand& op = ops_[r.first_op + k];
      if (op.cls != OperandClass::r32 || !(op.role & kWrite)) continue;
      if (kind == kAsync || (copied && r.guard < 0)) clear_bit(now, op.index);
      else if (!copied) set_bit(now, op.index);
    }
    return used;
  }

  std::vector<Interval> intervals() {
    std::vector<Interval> out(registers_);
    for (uint32_t r = 0; r < registers_; ++r) out[r] = {r, UINT32_MAX, 0};
    auto touch = [&](uint32_t reg, uint32_t pc) {
      out[reg].start = std::min(out[reg].start, pc);
      out[reg].end = std::max(out[reg].end, pc);
    };
    auto touch_all = [&](const Bits& bits, uint32_t pc) {
      for (size_t w = 0; w < words_; ++w)
        for (uint64_t x = bits[w]; x; x &= x - 1) {
          const uint32_t reg = static_cast<uint32_t>(w * 64 + static_cast<size_t>(__builtin_ctzll(x)));
          if (reg < registers_) touch(reg, pc);
        }
    };
    for (const BasicBlock& b : blocks_) {
      touch_all(b.live_in, b.begin);
      touch_all(b.live_out, b.end - 1);
      for (uint32_t pc = b.begin; pc < b.end; ++pc)
        each(raw_[pc], [&](uint32_t bit, uint8_t) {
          if (bit < registers_) touch(bit, pc);
        });
    }
    extend_async(out);
    return out;
  }

  // Registers of an asynchronous instruction stay its own until the second wait behind it: it may land that late.
  void extend_async(std::vector<Interval>& out) const {
    const uint32_t n = static_cast<uint32_t>(raw_.size());
    uint32_t first_wait = n - 1, second_wait = n - 1;
    for (uint32_t pc = n; pc-- > 0;) {
      const uint8_t kind = kind_[raw_[pc].handler];
      if (kind == kWait) {
        second_wait = first_wait;
        first_wait = pc;
      }
      if (kind != kAsync) continue;
      each(raw_[pc], [&](uint32_t bit, uint8_t) {
        if (bit >= registers_) return;
        Interval& iv = out[bit];
        iv.end = std::max(iv.end, second_wait);
        for (const auto& [to, from] : back_edges_)
          if (from >= pc && from <= iv.end) iv.start = std::min(iv.start, to);
      });
    }
  }

  void candidates(const RawInstr& r, std::vector<uint32_t>& out) const {
    const int64_t* imm = imms_.data() + r.first_imm;
    const int64_t size = 2 + 3 * (imm[1] + imm[2]);
    for (int64_t k = 0; k < imm[0]; ++k) out.push_back(static_cast<uint32_t>(imm[4 + k * size]));
  }

  // First instructions of the functions called, in order; the kernel stands in front of them.
  std::vector<uint32_t> called() const {
    std::vector<uint32_t> out;
    for (const RawInstr& r : raw_)
      if (kind_[r.handler] == kCall) out.push_back(static_cast<uint32_t>(imms_[r.first_imm]));
      else if (kind_[r.handler] == kCallAny) candidates(r, out);
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  void allocate(Analysis& out) {
    std::vector<Interval> list = intervals();
    out.slot.assign(registers_, kSinkOffset);
    std::sort(list.begin(), list.end(), [](const Interval& a, const Interval& b) { return a.start < b.start; });
    using Active = std::pair<uint32_t, uint32_t>;  // end, register
    std::priority_queue<Active, std::vector<Active>, std::greater<>> active;
    std::vector<uint32_t> free_narrow, free_wide;
    uint32_t top = kFirstRegister;
    const std::vector<uint32_t> functions = called();
    size_t function = 0;
    for (const Interval& iv : list) {
      if (iv.start == UINT32_MAX) continue;  // never used
      // What a caller holds across a call must not share a slot with anything of the function called.
      while (function < functions.size() && functions[function] <= iv.start) {
        ++function;
        active = {};
        free_narrow.clear();
        free_wide.clear();
      }
      while (!active.empty() && active.top().first < iv.start) {
        const uint32_t reg = active.top().second;
        active.pop();
        (widths_[reg] == 8 ? free_wide : free_narrow).push_back(out.slot[reg]);
      }
      const bool wide = widths_[iv.reg] == 8;
      std::vector<uint32_t>& pool = wide ? free_wide : free_narrow;
      if (pool.empty() || out.may_read_undefined) {
        out.slot[iv.reg] = top;
        top += wide ? 2 * kSlotBytes : kSlotBytes;
      } else {
        out.slot[iv.reg] = pool.back();
        pool.pop_back();
      }
      active.push({iv.end, iv.reg});
    }
    out.bytes = top;
  }

  static constexpr uint8_t kBranch = 1, kLeave = 2, kWait = 3, kAsync = 4, kCall = 5, kFence = 6, kMove = 7, kCallAny = 8;
  const std::vector<RawInstr>& raw_;
  const std::vector<RawOperand>& ops_;
  const std::vector<int64_t>& imms_;
  const std::vector<uint8_t>& widths_;
  uint32_t registers_;
  size_t words_;
  uint32_t bits_;
  std::vector<uint8_t> kind_;
  std::vector<BasicBlock> blocks_;
  std::vector<std::pair<uint32_t, uint32_t>> back_edges_;
};

}  // namespace

Analysis analyse(const std::vector<RawInstr>& raw, const std::vector<RawOperand>& ops, const std::vector<int64_t>& imms,
                 const std::vector<uint8_t>& widths, uint32_t pred_count) {
  return Analyser(raw, ops, imms, widths, pred_count).run();
}

}  // namespace tilewright::vgpu
