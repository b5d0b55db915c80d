// Whatever message of an operation fails, the operation itself ends with the error: no wait is left out.
#include <catch2/catch.hpp>

#include <string>
#include <utility>

#include "collectives/transport/bundle_testing.hpp"
#include "collectives/transport/p2p/message_exchange.hpp"
#include "collectives/transport/p2p/steps_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

/// How the work ends where message `failing` does; and how many messages it has had by then.
std::pair<error, std::size_t> played(const work& bundle, std::size_t members, std::int32_t rank,
                                     std::size_t failing) {
  steps counted{failing};
  messenger_of_steps worker(counted, rank, static_cast<std::int32_t>(members));
  message_staging staging{};
  staging.adasum_message_bytes = 1 << 20;
  abort_token abort;
  const deadline_and_abort deadline{abort, far(), "patience"};
  const message_exchange::probe nobody;
  auto problem = message_exchange(worker, staging, bundle, deadline, nobody, nullptr).run();
  return {std::move(problem), counted.taken};
}

} // namespace

TEST_CASE("a message that fails, whichever it is, fails the operation that it belongs to") {
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
