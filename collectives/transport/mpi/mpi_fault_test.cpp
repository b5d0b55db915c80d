// A message that fails, or is shorter than expected, fails its operation on the affected member.
#include <catch2/catch.hpp>

#include "collectives/transport/bundle_testing.hpp"
#include "collectives/transport/mpi/mpi_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

constexpr operation all_operations[] = {operation::allreduce, operation::allgather,     operation::broadcast,
                                        operation::alltoall,  operation::reducescatter, operation::barrier};

/// The errors of two members. A member that fails ends the wait of the other member.
std::vector<error> errors_of(mpi_members& job, operation op, std::size_t first, std::size_t second) {
  std::vector<error> errors(2);
  const auto deadline = steady_clock::now() + std::chrono::minutes(1);
  job.run([&](std::size_t rank, p2p_path& path) {
    const bundle_of own(op, rank == 0 ? first : second);
    errors[rank] = path.run(own.bundle, job.deadline(deadline)).error;
    if (errors[rank])
      job.abort.raise();
  });
  return errors;
}

} // namespace

TEST_CASE("mpi: a failure of any step of a message fails the operation on that member", "[mpi]") {
  const auto op = GENERATE(from_range(std::begin(all_operations), std::end(all_operations)));
  const std::size_t count = GENERATE(std::size_t{16}, std::size_t{600'000});
  std::size_t steps = 0;
  {
    mpi_members job(2);
    for (const auto& reason : errors_of(job, op, count, count))
      REQUIRE(reason.text == "");
    steps = job.mpi.steps;
  }
  REQUIRE(steps > 0);
  for (std::size_t failing = 0; failing < steps; ++failing) {
    mpi_members job(2);
    job.mpi.failing = failing;
    const auto errors = errors_of(job, op, count, count);
    INFO("operation " << static_cast<int>(op) << ", step " << failing);
    REQUIRE(job.mpi.failed >= 0);
    CHECK_THAT(errors[static_cast<std::size_t>(job.mpi.failed)].text, Catch::Contains("code 17"));
  }
}

TEST_CASE("mpi: a message that is too short fails the operation that received it", "[mpi]") {
  const auto op = GENERATE(operation::allreduce, operation::allgather, operation::broadcast,
                           operation::alltoall, operation::reducescatter);
  const std::size_t count = GENERATE(std::size_t{16}, std::size_t{600'000});
  INFO("operation " << static_cast<int>(op) << " of " << count);
  mpi_members job(2);
  const auto errors = errors_of(job, op, count - 2, count);
  CHECK_THAT(errors[1].text,
             Catch::Contains("rank 0 of MPI's world sent") && Catch::Contains("were expected"));
}
