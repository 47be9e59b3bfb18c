// Python bindings: handler and special register numbers, Program, launch.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>

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

// (entry, first and last virtual register, first and last predicate, local ranges, takes the address of one)
using FunctionTuple = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t, uint32_t,
                                 std::vector<std::pair<uint32_t, uint32_t>>, bool>;

std::shared_ptr<Program> make_program(const py::buffer& code, const py::bytes& widths, uint32_t pred_count,
                                      const std::vector<ConstantTuple>& constants,
                                      const std::vector<VariableTuple>& variables,
                                      const std::vector<FunctionTuple>& functions) {
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
  for (const auto& [entry, r0, r1, p0, p1, locals, takes_address] : functions)
    in.functions.push_back({entry, r0, r1, p0, p1, locals, takes_address, 0, 0, {}});
  return build_program(in);
}

struct Request {
  std::shared_ptr<Program> program;
  uint32_t entry;
  std::array<uint32_t, 3> grid, block, cluster;
  std::string params;
  uint32_t static_shared, dynamic_shared, local;
  std::vector<std::tuple<uint64_t, uint64_t, std::string, bool>> ranges;
  uint32_t device, processors;
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

void prepare(const Request& q, Run& run) {
  Launch& launch = run.launches.emplace_back();
  launch.run = &run;
  launch.index = static_cast<uint32_t>(run.launches.size() - 1);
  launch.device = q.device;
  launch.processors = q.processors;
  launch.program = q.program.get();
  launch.entry = q.entry;
  std::copy_n(q.grid.begin(), 3, launch.grid);
  std::copy_n(q.block.begin(), 3, launch.block);
  std::copy_n(q.cluster.begin(), 3, launch.cluster);
  if (launch.index) launch.first_unit = run.launches[launch.index - 1].first_unit + run.launches[launch.index - 1].units();
  launch.shared_bytes = q.static_shared + q.dynamic_shared;
  launch.dynamic_bytes = q.dynamic_shared;
  launch.local_bytes = q.local;
  launch.tracked = q.program->may_read_undefined && run.checked;
  launch.params.assign(q.params.begin(), q.params.end());
  for (const auto& [lo, hi, name, writable] : q.ranges) launch.ranges.push_back({lo, hi, name, writable});
  const std::vector<uint64_t> address = place_variables(*q.program, launch);
  place_workspace(launch);
  sort_ranges(launch.ranges);
  if (run.watch & ~kWatchRaces) launch.tallies = std::make_shared<std::vector<Tally>>(q.program->code.size());
  for (const Constant& c : q.program->constants)
    launch.constants.push_back(static_cast<uint64_t>(c.value) +
                               (c.kind == ConstantKind::variable ? address[c.variable] : 0));
}

py::tuple triple(const uint32_t* v) { return py::make_tuple(v[0], v[1], v[2]); }

py::object other_site(const Site& s) {
  if (s.line == 0) return py::none();
  return py::make_tuple(triple(s.block), s.warp, s.lane, s.line, s.launch);
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

py::tuple launch(const std::vector<py::object>& requests, int mode, uint64_t seed, uint64_t budget, uint32_t threads,
                 uint32_t watch) {
  std::vector<Request> wanted;
  for (const py::object& object : requests) {
    const auto t = py::cast<py::tuple>(object);
    const auto three = [&](size_t k) { return t[k].cast<std::array<uint32_t, 3>>(); };
    wanted.push_back({t[0].cast<std::shared_ptr<Program>>(), t[1].cast<uint32_t>(), three(2), three(3), three(4),
                      t[5].cast<std::string>(), t[6].cast<uint32_t>(), t[7].cast<uint32_t>(), t[8].cast<uint32_t>(),
                      t[9].cast<decltype(Request::ranges)>(), t[10].cast<uint32_t>(), t[11].cast<uint32_t>()});
  }
  Run run;
  {
    const py::gil_scoped_release release;
    run.mode = static_cast<Mode>(mode);
    run.seed = seed;
    run.budget = budget;
    run.threads = threads;
    run.watch = watch & ~kUnchecked;
    run.checked = !(watch & kUnchecked);
    for (const Request& q : wanted) prepare(q, run);
    if (watch & kWatchRaces) run.shadow = std::make_shared<GlobalShadow>(run);
    run_grids(run);
  }
  py::list findings, counts;
  for (const Finding& f : run.findings)
    findings.append(py::make_tuple(static_cast<int>(f.kind), f.message, triple(f.block), f.warp, f.lane, f.line, f.count,
                                   other_site(f.other), f.launch));
  for (const Launch& l : run.launches) counts.append(rows(l));
  return py::make_tuple(findings, run.instructions.load(), py::bytes(run.output), counts);
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
