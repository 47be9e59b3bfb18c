// A decoded program: instructions, operand pools, register file layout, constants.
#pragma once

#include <memory>

#include "machine.h"
#include "registry.h"

namespace tilewright::vgpu {

// Operand word of the Python encoder: class in bits 0-2, role in bits 3-4, negation in bit 5, index from bit 6.
enum class OperandClass : uint8_t { pred = 0, r32 = 1, r64 = 2, const32 = 3, const64 = 4, sink32 = 5, sink64 = 6 };
constexpr uint8_t kRead = 1;
constexpr uint8_t kWrite = 2;

struct RawOperand {
  OperandClass cls;
  uint8_t role;
  bool negated;
  uint32_t index;
};

inline RawOperand unpack_operand(int64_t word) {
  return {static_cast<OperandClass>(word & 7), static_cast<uint8_t>((word >> 3) & 3), ((word >> 5) & 1) != 0,
          static_cast<uint32_t>(word >> 6)};
}

constexpr uint8_t kReadsUndefined = 1;  // register sources may be undefined
constexpr uint8_t kNeedsDefined = 2;    // memory, address or branch: sources must be defined
constexpr uint8_t kSelects = 4;         // operand 3 is a predicate that picks operand 1 or 2: only that one counts
constexpr uint8_t kUnfenced = 8;        // wgmma on registers that may be written behind the last wgmma.fence (analysis)
// Operand 0 is put together from the others. Compilers pack parts that nothing uses: it counts as undefined only where
// all parts are.
constexpr uint8_t kPacks = 16;
// The same of prmt: bytes of operands 1 and 2, which the encoder makes alike where the selector takes bytes of one alone.
constexpr uint8_t kPermutes = 32;

struct RawInstr {
  uint32_t handler;
  int32_t guard;  // predicate index << 1 | negated, -1 = none
  uint32_t line;
  uint8_t flags;
  uint64_t traits;
  uint32_t first_op, op_count;
  uint32_t first_imm, imm_count;
};

enum class ConstantKind : uint8_t { value = 0, variable = 1, special = 2 };

struct Constant {
  ConstantKind kind;
  bool wide;
  int64_t value;      // bits; byte offset into the variable; number of the special register
  uint32_t variable;  // index of the module variable
  uint32_t slot;      // byte offset in the register file
};

struct Variable {
  std::string name;
  uint64_t bytes;
  uint32_t align;
  std::string init;                                          // leading bytes, the rest is zero
  std::vector<std::tuple<uint64_t, uint32_t, int64_t>> relocations;  // at, variable, addend
};

// What belongs to a function: its part of the register file, its predicates, and its local memory.
struct FunctionRange {
  uint32_t entry = 0;
  uint32_t first_register = 0, last_register = 0;  // virtual registers
  uint32_t first_predicate = 0, last_predicate = 0;
  std::vector<std::pair<uint32_t, uint32_t>> locals;  // [from, to) in the local memory of a thread
  bool takes_address = false;                         // of its local memory
  uint32_t first_slot = 0, last_slot = 0;             // [from, to) in the register file
  std::vector<std::pair<uint32_t, bool>> slots;       // of its registers, and whether of 64 bits
};

struct Program {
  std::vector<Instr> code;
  std::vector<uint32_t> ops;
  std::vector<int64_t> imms;
  std::vector<uint8_t> op_info;   // per op: class | role << 3
  std::vector<uint8_t> flags;     // per instruction
  std::vector<Constant> constants;
  std::vector<Variable> variables;
  uint32_t file_bytes = 0;        // register file of a warp
  uint32_t register_bytes = 0;    // its part that holds registers
  uint32_t pred_count = 0;
  bool may_read_undefined = false;
  bool has_stack = false;  // alloca
  std::vector<FunctionRange> functions;
};

struct ProgramInput {
  const int64_t* code;
  size_t code_words;
  std::vector<uint8_t> register_widths;  // 4 or 8 per virtual register
  uint32_t pred_count;                   // with the reserved ones: 0 = sink, 1 = true
  std::vector<Constant> constants;
  std::vector<Variable> variables;
  std::vector<FunctionRange> functions;
};

std::shared_ptr<Program> build_program(const ProgramInput& input);

// analysis.cpp
struct Analysis {
  std::vector<uint32_t> slot;  // byte offset per virtual register
  uint32_t bytes = 0;          // size of the register part, sinks included
  bool may_read_undefined = false;
  std::vector<uint32_t> unfenced;  // wgmma.mma_async that gets kUnfenced
};
Analysis analyse(const std::vector<RawInstr>& raw, const std::vector<RawOperand>& ops, const std::vector<int64_t>& imms,
                 const std::vector<uint8_t>& widths, uint32_t pred_count);

constexpr uint32_t kSinkOffset = 0;
constexpr uint32_t kFirstRegister = 2 * kSlotBytes;

}  // namespace tilewright::vgpu
