// If any message of an operation fails, the operation ends with its error. The test covers every message.
#include <catch2/catch.hpp>

#include <string>
#include <utility>

#include "collectives/transport/bundle_testing.hpp"
#include "collectives/transport/p2p/message_exchange.hpp"
#include "collectives/transport/p2p/steps_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

/// The error of the operation if message `failing` fails, and the number of its messages up to then.
std::pair<error, std::size_t> played(const work& bundle, std::size_t members, std::int32_t rank,
                                     std::size_t failing) {
  steps counted{failing};
  messenger_of_steps transport(counted, rank, static_cast<std::int32_t>(members));
  message_staging staging{};
  staging.adasum_message_bytes = 1 << 20;
  abort_token abort;
  const deadline_and_abort deadline{abort, far(), "patience"};
  const message_exchange::probe no_probe;
  auto problem = message_exchange(transport, staging, bundle, deadline, no_probe, nullptr).run();
  return {std::move(problem), counted.taken};
}

} // namespace

TEST_CASE("exchange: a failure of any message fails its operation") {
  const auto op = GENERATE(operation::allreduce, operation::allgather, operation::broadcast,
                           operation::alltoall, operation::reducescatter, operation::barrier);
  const auto reduction = GENERATE(reduce_op::sum, reduce_op::adasum);
  if (reduction == reduce_op::adasum && op != operation::allreduce)
    return;
  const std::size_t members = GENERATE(std::size_t{2}, std::size_t{4});
  const std::size_t count = GENERATE(std::size_t{3}, std::size_t{400'000}); // one message, or pieces
  for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(members); ++rank) {
    const bundle_of own(op, count, members, dtype::float32, reduction);
    const auto [none, messages] = played(own.bundle, members, rank, SIZE_MAX);
    INFO("operation " << static_cast<int>(op) << " of " << members << " members, rank " << rank << ", "
                      << messages << " messages");
    REQUIRE_FALSE(none);
    REQUIRE(messages > 0);
    for (std::size_t failing = 0; failing < messages; ++failing)
      CHECK(played(own.bundle, members, rank, failing).first.text == "step " + std::to_string(failing));
  }
}
