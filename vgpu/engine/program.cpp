#include "program.h"

#include <algorithm>
#include <stdexcept>

namespace tilewright::vgpu {
namespace {

struct Decoded {
  std::vector<RawInstr> raw;
  std::vector<RawOperand> ops;
  std::vector<int64_t> imms;
};

Decoded read_words(const int64_t* words, size_t count) {
  Decoded out;
  size_t at = 0;
  while (at < count) {
    RawInstr r{};
    r.handler = static_cast<uint32_t>(words[at]);
    r.guard = static_cast<int32_t>(words[at + 1]);
    r.line = static_cast<uint32_t>(words[at + 2]);
    r.flags = static_cast<uint8_t>(words[at + 3]);
    r.traits = static_cast<uint64_t>(words[at + 3]) >> 8;
    r.op_count = static_cast<uint32_t>(words[at + 4]);
    r.imm_count = static_cast<uint32_t>(words[at + 5]);
    at += 6;
    r.first_op = static_cast<uint32_t>(out.ops.size());
    r.first_imm = static_cast<uint32_t>(out.imms.size());
    if (at + r.op_count + r.imm_count > count) throw std::runtime_error("truncated program");
    for (uint32_t k = 0; k < r.op_count; ++k) out.ops.push_back(unpack_operand(words[at++]));
    for (uint32_t k = 0; k < r.imm_count; ++k) out.imms.push_back(words[at++]);
    out.raw.push_back(r);
  }
  return out;
}

uint32_t resolve(const RawOperand& op, const Analysis& analysis, const std::vector<Constant>& constants) {
  switch (op.cls) {
    case OperandClass::pred: return op.index << 1 | (op.negated ? 1u : 0u);
    case OperandClass::r32:
    case OperandClass::r64: return analysis.slot[op.index];
    case OperandClass::const32:
    case OperandClass::const64: return constants[op.index].slot;
    default: return kSinkOffset;
  }
}

void place_constants(Program& program, uint32_t from) {
  uint32_t at = from;
  for (Constant& c : program.constants) {
    c.slot = at;
    at += c.wide ? 2 * kSlotBytes : kSlotBytes;
  }
  program.file_bytes = at;
}

// The slots that the registers of a function got: nothing else has a slot between them (analysis.cpp).
void place_functions(Program& program, const Analysis& analysis, const std::vector<uint8_t>& widths) {
  for (FunctionRange& f : program.functions) {
    f.first_slot = f.last_slot = kFirstRegister;
    for (uint32_t r = f.first_register; r < f.last_register; ++r) {
      const uint32_t slot = analysis.slot[r];
      if (slot == kSinkOffset) continue;
      const bool wide = widths[r] == 8;
      f.first_slot = f.slots.empty() ? slot : std::min(f.first_slot, slot);
      f.last_slot = std::max(f.last_slot, slot + (wide ? 2 : 1) * kSlotBytes);
      f.slots.emplace_back(slot, wide);
    }
    if (f.slots.empty()) f.last_slot = f.first_slot;
  }
}

}  // namespace

std::shared_ptr<Program> build_program(const ProgramInput& input) {
  const Decoded decoded = read_words(input.code, input.code_words);
  const Analysis analysis =
      analyse(decoded.raw, decoded.ops, decoded.imms, input.register_widths, input.pred_count);
  auto program = std::make_shared<Program>();
  program->constants = input.constants;
  program->variables = input.variables;
  program->pred_count = input.pred_count;
  program->functions = input.functions;
  place_functions(*program, analysis, input.register_widths);
  program->register_bytes = analysis.bytes;
  program->may_read_undefined = analysis.may_read_undefined;
  place_constants(*program, analysis.bytes);
  program->imms = decoded.imms;
  program->ops.reserve(decoded.ops.size());
  program->op_info.reserve(decoded.ops.size());
  for (const RawOperand& op : decoded.ops) {
    program->ops.push_back(resolve(op, analysis, program->constants));
    program->op_info.push_back(static_cast<uint8_t>(static_cast<unsigned>(op.cls) | op.role << 3));
  }
  program->code.reserve(decoded.raw.size());
  for (const RawInstr& r : decoded.raw) {
    Instr i;
    i.run = registry().at(r.handler);
    i.handler = r.handler;
    if (r.traits >> 5 & 1) i.run = registry().at(registry().index("fence"));  // a fence of memory order
    i.ops = program->ops.data() + r.first_op;
    i.imm = program->imms.data() + r.first_imm;
    i.guard = r.guard;
    i.traits = r.traits;
    i.line = r.line;
    i.op_count = static_cast<uint16_t>(r.op_count);
    i.imm_count = static_cast<uint16_t>(r.imm_count);
    program->has_stack |= registry().names()[r.handler] == "alloca";
    program->code.push_back(i);
    program->flags.push_back(r.flags);
  }
  for (const uint32_t pc : analysis.unfenced) program->flags[pc] |= kUnfenced;
  return program;
}

}  // namespace tilewright::vgpu
