// If any message of an operation fails, the operation ends with its error. The test covers every message.
#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

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

/// One of two members, whose messages are done at once.
class watched_messenger final : public messenger {
public:
  explicit watched_messenger(std::function<void()> on_send) : on_send_(std::move(on_send)) {}
  std::int32_t rank() const override { return 0; }
  std::int32_t members() const override { return 2; }
  void send(std::int32_t, message_phase, std::span<const std::byte>, message_ticket&) override { on_send_(); }
  void receive(std::int32_t, message_phase, std::span<std::byte>, message_ticket&) override {}
  void look() override {}
  error wait(const message_ticket&, const deadline_and_abort&) override { return {}; }

private:
  const std::function<void()> on_send_;
};

} // namespace

TEST_CASE("exchange: the other members do not wait while a member copies its own bytes to its output") {
  const auto op = GENERATE(operation::allgather, operation::alltoall, operation::broadcast);
  constexpr std::size_t row = 4'000'000;
  bundle_of own(op, row);
  std::vector<std::byte> ends; // of the own bytes in the output, at each message
  watched_messenger transport([&] { ends.push_back(own.output[row - 1]); });
  message_staging staging{};
  abort_token abort;
  const deadline_and_abort deadline{abort, far(), "patience"};
  const message_exchange::probe no_probe;
  REQUIRE_FALSE(message_exchange(transport, staging, own.bundle, deadline, no_probe, nullptr).run());
  REQUIRE(ends.size() >= 4);
  CHECK(ends.front() == std::byte{0});
  CHECK(std::equal(own.input.begin(), own.input.begin() + row, own.output.begin()));
}

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
