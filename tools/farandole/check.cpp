#include "tools/farandole/check.hpp"

#include <algorithm>

#include "actors/submission/nvtx_domain.hpp"
#include "collectives/transport/ccl/ccl_library.hpp"
#include "collectives/transport/mpi/mpi_library.hpp"
#include "collectives/transport/path_routes.hpp"
#include "collectives/transport/path_table.hpp"
#include "cuda/nccl/communicator.hpp"
#include "tools/farandole/command_line.hpp"
#include "tools/farandole/gpu_report.hpp"

namespace farandole {

namespace {

// The import of a framework reads gigabytes if they are not in the page cache.
constexpr std::chrono::seconds import_deadline{120};

std::string line(const std::string& label, bool present) {
  return std::string("    ") + (present ? "[X] " : "[ ] ") + label + "\n";
}

std::string block(const std::string& title, std::span<const capability> entries) {
  std::string text = "\n" + title + ":\n";
  for (const auto& entry : entries)
    text += line(entry.label, entry.present);
  return text;
}

/// Whether this build has been made without the component that a setting needs. Others are looked for when they are used.
bool lacks(std::string_view component) {
  return component == "NVTX" && !nvtx_domain::is_built_in();
}

} // namespace

build_facts find_facts(const std::string& program) {
  build_facts facts;
  if (const auto python = find_python(program))
    facts.frameworks = probe_frameworks(*python, import_deadline);
  else
    for (const char* label : {"TensorFlow", "PyTorch", "MXNet"})
      facts.frameworks.push_back({label, "", false, "no Python was found"});
  const bool mpi = static_cast<bool>(load_mpi());
  // "Gloo" stands for a launch without MPI, and for data paths that need none of these libraries.
  facts.controllers = {{"MPI", mpi}, {"Gloo", true}};
  const bool ccl = ccl_works();
  const bool nccl = !nccl_library::objection_to_build() && find_nccl(nccl_candidates(find_python(program)));
  facts.operations = {{"NCCL", nccl}, {"DDL", false}, {"CCL", ccl}, {"MPI", mpi}, {"Gloo", true}};
  facts.paths = {{"fast path", true}};
  for (const auto& path : path_table())
    if (path.available != nullptr)
      facts.paths.push_back({std::string(path.name), path.available()});
  facts.paths.push_back({"nccl", nccl});
  facts.profiling = {{"NVTX ranges", nvtx_domain::is_built_in()}};
  return facts;
}

std::string build_report(const build_facts& facts) {
  std::string text = "Horovod v" + std::string(interface_version) + ":\n";
  std::vector<capability> frameworks;
  for (const auto& framework : facts.frameworks)
    frameworks.push_back({framework.label, framework.loads});
  text += block("Available Frameworks", frameworks);
  text += block("Available Controllers", facts.controllers);
  text += block("Available Tensor Operations", facts.operations);
  text += block("Farandole Data Paths", facts.paths);
  text += block("Farandole Profiling", facts.profiling);
  return text + "\nFarandole v" + facts.version + "\n";
}

std::string operations_report(const build_facts& facts) {
  std::vector<std::string_view> absent;
  for (const auto& path : facts.paths)
    if (!path.present)
      absent.push_back(path.label);
  return "\nOperations and Their Data Paths:\n" + path_report(absent);
}

std::string settings_report(const settings& values) {
  std::size_t name_width = 0, value_width = 0;
  for (const auto& row : setting_table()) {
    name_width = std::max(name_width, row.environment.size());
    value_width = std::max(value_width, values.shown(row.id).size());
  }
  constexpr std::size_t widest = 40; // longer values exceed their column
  value_width = std::min(value_width, widest);
  const auto padded = [](std::string text, std::size_t width) {
    text.resize(std::max(text.size(), width), ' ');
    return text;
  };
  std::string text = "\nSettings:\n";
  for (const auto& row : setting_table()) {
    text += "    " + padded(std::string(row.environment), name_width) + "  " +
            padded(values.shown(row.id), value_width) + "  " + std::string(to_string(values.source(row.id)));
    if (!row.needs.empty())
      text += ", needs " + std::string(row.needs);
    if (!row.has_effect || lacks(row.needs))
      text += ", no effect in this build";
    text += "\n";
  }
  return text;
}

std::string reasons_report(const build_facts& facts) {
  std::string text;
  for (const auto& framework : facts.frameworks)
    if (!framework.loads)
      text += framework.label + ": " + framework.reason + "\n";
  return text.empty() ? text : "\n" + text;
}

} // namespace farandole
