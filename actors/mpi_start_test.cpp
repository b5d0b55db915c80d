// When a job needs MPI, and what it says where there is none. That it works is told by tests under mpirun.
#include <catch2/catch.hpp>

#include "actors/mpi_start.hpp"

using namespace farandole;

namespace {

settings with(std::map<std::string, std::string> given) {
  auto values = settings::load({[given](std::string_view name) -> std::optional<std::string> {
                                  const auto found = given.find(std::string(name));
                                  return found == given.end() ? std::nullopt : std::optional(found->second);
                                },
                                {},
                                {}});
  REQUIRE(values);
  return *values;
}

std::string what_meet_says(std::map<std::string, std::string> given) {
  auto values = with(std::move(given));
  CHECK(needs_mpi(values, {}));
  std::string secret;
  logger log(log_options{});
  auto met = mpi_start::meet(values, secret, {}, log);
  return met ? "" : met.error().text;
}

} // namespace

TEST_CASE("mpirun's environment says how many processes there are", "[mpi]") {
  const auto variable = [](std::string wanted, std::string value) {
    return [=](std::string_view name) { return name == wanted ? std::optional(value) : std::nullopt; };
  };
  CHECK(launched_by_mpi(variable("OMPI_COMM_WORLD_SIZE", "3")) == 3);
  CHECK(launched_by_mpi(variable("PMI_SIZE", "2")) == 2);
  CHECK(launched_by_mpi(variable("HOROVOD_SIZE", "2")) == 0);
  CHECK(launched_by_mpi(variable("PMI_SIZE", "many")) == 0);
}

TEST_CASE("MPI is asked only where it is needed", "[mpi]") {
  const std::string rendezvous = "HOROVOD_GLOO_RENDEZVOUS_ADDR";
  CHECK_FALSE(needs_mpi(settings::built_in(), {}));
  CHECK_FALSE(needs_mpi(settings::built_in(), {{}, 1}));
  CHECK(needs_mpi(settings::built_in(), {{}, 2}));
  CHECK(needs_mpi(settings::built_in(), {{0}, 1}));
  CHECK_FALSE(needs_mpi(with({{rendezvous, "10.0.0.1"}}), {{}, 2}));
  CHECK(needs_mpi(with({{rendezvous, "10.0.0.1"}, {"FARANDOLE_CPU_PATH", "mpi"}}), {{}, 2}));
  CHECK_FALSE(needs_mpi(
      with({{rendezvous, "10.0.0.1"}, {"FARANDOLE_CPU_PATH", "local"}, {"HOROVOD_CPU_OPERATIONS", "mpi"}}),
      {}));
  CHECK(needs_mpi(with({{"HOROVOD_CONTROLLER", "mpi"}}), {}));
}

TEST_CASE("a process that mpirun did not start is told which setting wants it", "[mpi]") {
  const std::string size = "HOROVOD_SIZE", address = "HOROVOD_GLOO_RENDEZVOUS_ADDR";
  for (auto [name, value] : {std::pair{"FARANDOLE_CPU_PATH", "mpi"}, {"HOROVOD_CPU_OPERATIONS", "mpi"}}) {
    const auto text = what_meet_says({{size, "2"}, {address, "127.0.0.1"}, {name, value}});
    CHECK(text.find(std::string(name) + "=mpi") == 0);
    CHECK(text.find("mpirun -np N") != std::string::npos);
  }
  CHECK(what_meet_says({{size, "1"}, {"FARANDOLE_CPU_PATH", "mpi"}}).empty()); // a job of one needs nobody
}
