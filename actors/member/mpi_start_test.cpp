// Which jobs need MPI, and the error of a job that needs MPI but was not started by mpirun. Tests under mpirun cover
// MPI itself.
#include <catch2/catch.hpp>

#include "actors/member/mpi_start.hpp"
#include "messages/settings/environment_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

std::string meet_error(variables given) {
  auto values = settings_of(std::move(given));
  CHECK(needs_mpi(values, {}));
  std::string secret;
  auto met = mpi_start::meet(values, secret, {});
  return met ? "" : met.error().text;
}

} // namespace

TEST_CASE("a job needs MPI only for a setting that selects it or for ranks of MPI, however it was started",
          "[mpi]") {
  const std::string rendezvous = "HOROVOD_GLOO_RENDEZVOUS_ADDR";
  const auto launched = [](std::int32_t size) {
    foreign_launch launch;
    launch.size = size;
    launch.by = gathering::pmi;
    launch.starts_mpi = true;
    return mpi_facts{{}, launch};
  };
  CHECK_FALSE(needs_mpi(settings::built_in(), {}));
  CHECK_FALSE(needs_mpi(settings::built_in(), launched(1)));
  CHECK_FALSE(needs_mpi(settings::built_in(), launched(2)));
  CHECK_FALSE(needs_mpi(settings::built_in(), launched(0))); // PMIx alone does not publish the size
  CHECK(needs_mpi(settings_of({{"FARANDOLE_CPU_PATH", "mpi"}}), launched(2)));
  CHECK(needs_mpi(settings::built_in(), {{0}, launched(1).launch}));
  CHECK_FALSE(needs_mpi(settings_of({{rendezvous, "10.0.0.1"}}), launched(2)));
  CHECK(needs_mpi(settings_of({{rendezvous, "10.0.0.1"}, {"FARANDOLE_CPU_PATH", "mpi"}}), launched(2)));
  CHECK_FALSE(needs_mpi(
      settings_of(
          {{rendezvous, "10.0.0.1"}, {"FARANDOLE_CPU_PATH", "local"}, {"HOROVOD_CPU_OPERATIONS", "mpi"}}),
      {}));
  CHECK(needs_mpi(settings_of({{"HOROVOD_CONTROLLER", "mpi"}}), {}));
}

TEST_CASE("a process that mpirun did not start gets an error that names the setting that needs MPI",
          "[mpi]") {
  const std::string size = "HOROVOD_SIZE", address = "HOROVOD_GLOO_RENDEZVOUS_ADDR";
  for (auto [name, value] : {std::pair{"FARANDOLE_CPU_PATH", "mpi"}, {"HOROVOD_CPU_OPERATIONS", "mpi"}}) {
    const auto text = meet_error({{size, "2"}, {address, "127.0.0.1"}, {name, value}});
    CHECK(text.find(std::string(name) + "=mpi") == 0);
    CHECK(text.find("mpirun -np N") != std::string::npos);
  }
  CHECK(meet_error({{size, "1"}, {"FARANDOLE_CPU_PATH", "mpi"}}).empty()); // a job of one rank needs no MPI
}
