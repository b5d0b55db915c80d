// A message that fails, or is shorter than it should be, fails the operation that it belongs to, on the
// member that it hit.
#include <catch2/catch.hpp>

#include "collectives/transport/bundle_testing.hpp"
#include "collectives/transport/mpi/mpi_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

constexpr operation all[] = {operation::allreduce, operation::allgather,     operation::broadcast,
                             operation::alltoall,  operation::reducescatter, operation::barrier};

/// What each of two members is told. A member that has failed ends the other one's wait.
std::vector<error> told(some_members& job, operation op, std::size_t first, std::size_t second) {
  std::vector<error> errors(2);
  const auto deadline = steady_clock::now() + std::chrono::seconds(20);
  job.run([&](std::size_t rank, p2p_path& path) {
    const bundle_of own(op, rank == 0 ? first : second);
    errors[rank] = path.run(own.bundle, job.deadline(deadline)).error;
    if (errors[rank])
      job.abort.raise();
  });
  return errors;
}

} // namespace

TEST_CASE("mpi: each step of a message that fails ends the operation, on that member", "[mpi]") {
  const auto op = GENERATE(from_range(std::begin(all), std::end(all)));
  const std::size_t count = GENERATE(std::size_t{16}, std::size_t{600'000});
  std::size_t steps = 0;
  {
    some_members job(2);
    for (const auto& reason : told(job, op, count, count))
      REQUIRE(reason.text == "");
    steps = job.mpi.steps;
  }
  REQUIRE(steps > 0);
  for (std::size_t failing = 0; failing < steps; ++failing) {
    some_members job(2);
    job.mpi.failing = failing;
    const auto errors = told(job, op, count, count);
    INFO("operation " << static_cast<int>(op) << ", step " << failing);
    REQUIRE(job.mpi.failed >= 0);
    CHECK_THAT(errors[static_cast<std::size_t>(job.mpi.failed)].text, Catch::Contains("code 17"));
  }
}

TEST_CASE("mpi: a message that is too short fails the operation that took it", "[mpi]") {
  const auto op = GENERATE(operation::allreduce, operation::allgather, operation::broadcast,
                           operation::alltoall, operation::reducescatter);
  const std::size_t count = GENERATE(std::size_t{16}, std::size_t{600'000});
  INFO("operation " << static_cast<int>(op) << " of " << count);
  some_members job(2);
  const auto errors = told(job, op, count - 2, count);
  CHECK_THAT(errors[1].text,
             Catch::Contains("rank 0 of MPI's world sent") && Catch::Contains("were expected"));
}
