#include "tools/farandole/check.hpp"

#include <catch2/catch.hpp>

#include <fstream>
#include <map>

#include <sys/stat.h>
#include <unistd.h>

#include "actors/submission/nvtx_domain.hpp"
#include "collectives/transport/mpi/mpi_library.hpp"
#include "tests/temporary_folder.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

/// A replacement for Python in a folder of its own.
struct stand_in {
  const temporary_folder made;
  const std::string folder = made.path(), path = folder + "/python3";
  explicit stand_in(const std::string& script) {
    std::ofstream(path) << "#!/bin/sh\n" << script;
    ::chmod(path.c_str(), 0700);
  }
};

} // namespace

TEST_CASE("the report has the blocks and marks that scripts look for", "[check]") {
  build_facts facts;
  facts.version = "1.2.3";
  facts.frameworks = {{"TensorFlow", "", false, "no"}, {"PyTorch", "", true, ""}, {"MXNet", "", false, "no"}};
  facts.controllers = {{"MPI", false}, {"Gloo", true}};
  facts.operations = {{"NCCL", false}, {"DDL", false}, {"CCL", false}, {"MPI", false}, {"Gloo", true}};
  facts.paths = {{"local", true}};
  facts.profiling = {{"NVTX ranges", false}};
  CHECK(build_report(facts) == "Horovod v0.28.1:\n"
                               "\n"
                               "Available Frameworks:\n"
                               "    [ ] TensorFlow\n"
                               "    [X] PyTorch\n"
                               "    [ ] MXNet\n"
                               "\n"
                               "Available Controllers:\n"
                               "    [ ] MPI\n"
                               "    [X] Gloo\n"
                               "\n"
                               "Available Tensor Operations:\n"
                               "    [ ] NCCL\n"
                               "    [ ] DDL\n"
                               "    [ ] CCL\n"
                               "    [ ] MPI\n"
                               "    [X] Gloo\n"
                               "\n"
                               "Farandole Data Paths:\n"
                               "    [X] local\n"
                               "\n"
                               "Farandole Profiling:\n"
                               "    [ ] NVTX ranges\n"
                               "\n"
                               "Farandole v1.2.3\n");
}

TEST_CASE("a path that is not available is shown as absent in both blocks", "[check]") {
  build_facts facts;
  facts.paths = {{"local", true}, {"mpi", true}, {"ccl", false}};
  const auto report = operations_report(facts);
  CHECK(report.find("    nothing by ccl: it is not available here\n") != std::string::npos);
  CHECK(report.find("nothing by mpi") == std::string::npos);
  CHECK(report.find("not by ccl: ") == std::string::npos);
  const auto begin = report.find("    allreduce ");
  const auto row = report.substr(begin, report.find('\n', begin) - begin);
  const auto header = report.find("solo");
  const auto first = report.rfind('\n', header) + 1;
  const auto mark = [&](const std::string& path) {
    return row.substr(report.find("  " + path, header) + 2 - first, 3);
  };
  CHECK(mark("mpi") == "[X]");
  CHECK(mark("ccl") == "[ ]");
}

TEST_CASE("MPI is listed as a controller where its library is found, as among the operations", "[check]") {
  const stand_in python("exit 1\n");
  const auto facts = find_facts(python.folder + "/horovodrun");
  const auto marks = [](const std::vector<capability>& entries) {
    std::map<std::string, bool> found;
    for (const auto& entry : entries)
      found[entry.label] = entry.present;
    return found;
  };
  const bool has_mpi = static_cast<bool>(load_mpi());
  CHECK(marks(facts.controllers) == std::map<std::string, bool>{{"MPI", has_mpi}, {"Gloo", true}});
  CHECK(marks(facts.operations).at("MPI") == has_mpi);
}

TEST_CASE("every setting is shown with its value and its source", "[check]") {
  auto values = settings::load({{}, {{"params.cache_capacity", "7"}}, {{"--cycle-time-ms", "2"}}});
  REQUIRE(values);
  const auto report = settings_report(*values);
  for (const auto& row : setting_table())
    CHECK(report.find("    " + std::string(row.environment) + " ") != std::string::npos);
  const auto line_of = [&](const std::string& name) {
    const auto begin = report.find(name + " ");
    return report.substr(begin, report.find('\n', begin) - begin);
  };
  CHECK(line_of("HOROVOD_CACHE_CAPACITY").ends_with("config file"));
  CHECK(line_of("HOROVOD_CYCLE_TIME").ends_with("command line"));
  CHECK(line_of("HOROVOD_START_TIMEOUT").ends_with("default"));
  CHECK(line_of("HOROVOD_CYCLE_TIME").find(" 2 ms ") != std::string::npos);
  CHECK(line_of("HOROVOD_AUTOTUNE").ends_with("no effect in this build"));
  const std::string profiling =
      nvtx_domain::is_built_in() ? "needs NVTX" : "needs NVTX, no effect in this build";
  CHECK(line_of("HOROVOD_DISABLE_NVTX_RANGES").ends_with(profiling));
}

TEST_CASE("the interpreter beside the program is found first", "[check]") {
  const stand_in python("exit 0\n");
  CHECK(find_python(python.folder + "/horovodrun") == python.path);
}

TEST_CASE("a framework counts only if its binding can be imported, and Python gives the reason if not",
          "[check]") {
  const stand_in python("case \"$2\" in *torch) exit 0;; esac\necho 'Traceback' >&2\n"
                        "echo \"ModuleNotFoundError: no $2\" >&2\nexit 1\n");
  const auto found = probe_frameworks(python.path, std::chrono::seconds(60));
  REQUIRE(found.size() == 3);
  for (const auto& framework_entry : found) {
    CHECK(framework_entry.loads == (framework_entry.label == "PyTorch"));
    if (!framework_entry.loads)
      CHECK(framework_entry.reason == "ModuleNotFoundError: no import " + framework_entry.module);
  }
}

TEST_CASE("an import that does not end counts as failed", "[check]") {
  const stand_in python("sleep 1000 & wait\n");
  for (const auto& framework_entry : probe_frameworks(python.path, std::chrono::seconds(0))) {
    CHECK_FALSE(framework_entry.loads);
    CHECK(framework_entry.reason == "the import did not end in time");
  }
}
