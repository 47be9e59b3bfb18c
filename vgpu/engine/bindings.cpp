// Python bindings: handler and special register numbers, Program, launch.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "interpret.h"
#include "observe.h"
#include "special.h"

namespace py = pybind11;

namespace tilewright::vgpu {
namespace {

py::dict numbered(const std::vector<std::string>& names) {
  py::dict out;
  for (size_t k = 0; k < names.size(); ++k) out[py::str(names[k])] = k;
  return out;
}

using ConstantTuple = std::tuple<int, bool, int64_t, uint32_t>;
using VariableTuple = std::tuple<std::string, uint64_t, uint32_t, py::bytes, std::vector<std::tuple<uint64_t, uint32_t, int64_t>>>;

std::shared_ptr<Program> make_program(const py::buffer& code, const py::bytes& widths, uint32_t pred_count,
                                      const std::vector<ConstantTuple>& constants,
                                      const std::vector<VariableTuple>& variables) {
  const py::buffer_info info = code.request();
  ProgramInput in;
  in.code = static_cast<const int64_t*>(info.ptr);
  in.code_words = static_cast<size_t>(info.size);
  const std::string w = widths;
  in.register_widths.assign(w.begin(), w.end());
  in.pred_count = pred_count;
  for (const auto& [kind, wide, value, variable] : constants)
    in.constants.push_back({static_cast<ConstantKind>(kind), wide, value, variable, 0});
  for (const auto& [name, bytes, align, init, relocations] : variables)
    in.variables.push_back({name, bytes, align, std::string(init), relocations});
  return build_program(in);
}

struct Request {
  std::shared_ptr<Program> program;
  uint32_t entry;
  std::vector<uint32_t> grid, block, cluster;
  std::string params;
  uint32_t static_shared, dynamic_shared, local;
  std::vector<std::tuple<uint64_t, uint64_t, std::string, bool>> ranges;
  int mode;
  uint64_t seed, budget;
  uint32_t threads, watch;
};

// Module variables get fresh memory for every launch.
std::vector<uint64_t> place_variables(const Program& p, Launch& launch) {
  std::vector<uint64_t> address;
  for (const Variable& v : p.variables) {
    const uint64_t align = std::max<uint64_t>(v.align, 16);
    launch.storage.emplace_back(v.bytes + align, uint8_t{0});
    const uint64_t at = (reinterpret_cast<uint64_t>(launch.storage.back().data()) + align - 1) / align * align;
    address.push_back(at);
    std::copy(v.init.begin(), v.init.end(), reinterpret_cast<char*>(at));
    launch.ranges.push_back({at, at + v.bytes, v.name, true});
  }
  for (size_t k = 0; k < p.variables.size(); ++k)
    for (const auto& [at, target, addend] : p.variables[k].relocations) {
      const uint64_t value = address[target] + static_cast<uint64_t>(addend);
      std::copy_n(reinterpret_cast<const uint8_t*>(&value), 8, reinterpret_cast<uint8_t*>(address[k] + at));
    }
  return address;
}

// What %envreg1 and %envreg2 point to: size and barrier word of a cooperative launch.
void place_workspace(Launch& launch) {
  constexpr uint64_t kBytes = 16;
  launch.storage.emplace_back(2 * kBytes, uint8_t{0});
  launch.workspace = (reinterpret_cast<uint64_t>(launch.storage.back().data()) + kBytes - 1) / kBytes * kBytes;
  launch.ranges.push_back({launch.workspace, launch.workspace + kBytes, "the grid workspace", true});
}

// Ranges that overlap are views of one allocation: their union is legal.
void sort_ranges(std::vector<Range>& ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.lo < b.lo; });
  std::vector<Range> out;
  for (Range& r : ranges) {
    if (r.hi <= r.lo) continue;
    if (!out.empty() && r.lo < out.back().hi) {
      out.back().hi = std::max(out.back().hi, r.hi);
      out.back().writable &= r.writable;
      if (out.back().name.find(r.name) == std::string::npos) out.back().name += ", " + r.name;
    } else {
      out.push_back(std::move(r));
    }
  }
  ranges = std::move(out);
}

void prepare(const Request& q, Launch& launch) {
  launch.program = q.program.get();
  launch.entry = q.entry;
  std::copy_n(q.grid.begin(), 3, launch.grid);
  std::copy_n(q.block.begin(), 3, launch.block);
  std::copy_n(q.cluster.begin(), 3, launch.cluster);
  launch.threads = q.threads;
  launch.shared_bytes = q.static_shared + q.dynamic_shared;
  launch.dynamic_bytes = q.dynamic_shared;
  launch.local_bytes = q.local;
  launch.mode = static_cast<Mode>(q.mode);
  launch.seed = q.seed;
  launch.budget = q.budget;
  launch.tracked = q.program->may_read_undefined;
  launch.params.assign(q.params.begin(), q.params.end());
  for (const auto& [lo, hi, name, writable] : q.ranges) launch.ranges.push_back({lo, hi, name, writable});
  const std::vector<uint64_t> address = place_variables(*q.program, launch);
  place_workspace(launch);
  sort_ranges(launch.ranges);
  launch.watch = q.watch;
  if (q.watch & kWatchRaces) launch.shadow = std::make_shared<GlobalShadow>(launch);
  if (q.watch & ~kWatchRaces) launch.tallies = std::make_shared<std::vector<Tally>>(q.program->code.size());
  for (const Constant& c : q.program->constants)
    launch.constants.push_back(static_cast<uint64_t>(c.value) +
                               (c.kind == ConstantKind::variable ? address[c.variable] : 0));
}

py::tuple triple(const uint32_t* v) { return py::make_tuple(v[0], v[1], v[2]); }

py::object other_site(const Site& s) {
  if (s.line == 0) return py::none();
  return py::make_tuple(triple(s.block), s.warp, s.lane, s.line);
}

// (PTX line, traits, counters...) of every instruction that ran.
py::list rows(const Launch& l) {
  py::list out;
  if (!l.tallies) return out;
  for (size_t k = 0; k < l.tallies->size(); ++k) {
    const Tally& t = (*l.tallies)[k];
    const Instr& i = l.program->code[k];
    if (t.runs)
      out.append(py::make_tuple(i.line, i.traits, t.runs, t.lanes, t.shared_bytes, t.global_bytes, t.wavefronts,
                                t.phases, t.requests, t.sectors));
  }
  return out;
}

py::tuple launch(const std::shared_ptr<Program>& program, uint32_t entry, std::vector<uint32_t> grid,
                 std::vector<uint32_t> block, std::vector<uint32_t> cluster, const py::bytes& params,
                 uint32_t static_shared, uint32_t dynamic_shared, uint32_t local,
                 std::vector<std::tuple<uint64_t, uint64_t, std::string, bool>> ranges, int mode, uint64_t seed,
                 uint64_t budget, uint32_t threads, uint32_t watch) {
  const Request q{program, entry, std::move(grid), std::move(block), std::move(cluster), std::string(params),
                  static_shared, dynamic_shared, local, std::move(ranges), mode, seed, budget, threads, watch};
  Launch l;
  {
    const py::gil_scoped_release release;
    prepare(q, l);
    run_grid(l);
  }
  py::list findings;
  for (const Finding& f : l.findings)
    findings.append(py::make_tuple(static_cast<int>(f.kind), f.message, triple(f.block), f.warp, f.lane, f.line, f.count,
                                   other_site(f.other)));
  return py::make_tuple(findings, l.instructions.load(), py::bytes(l.output), l.stop.load(), rows(l));
}

}  // namespace
}  // namespace tilewright::vgpu

PYBIND11_MODULE(_engine, m) {
  using namespace tilewright::vgpu;
  m.doc() = "The engine of the virtual GPU.";
  py::class_<Program, std::shared_ptr<Program>>(m, "Program")
      .def_property_readonly("instructions", [](const Program& p) { return p.code.size(); })
      .def_property_readonly("file_bytes", [](const Program& p) { return p.file_bytes; })
      .def_property_readonly("may_read_undefined", [](const Program& p) { return p.may_read_undefined; });
  m.def("handlers", [] { return numbered(registry().names()); });
  m.def("specials", [] { return numbered(special_names()); });
  m.def("make_program", &make_program);
  m.def("launch", &launch);
}
