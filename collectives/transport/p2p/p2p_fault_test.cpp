// A message that fails ends its operation on the member that receives it. Here the members disagree about the
// length of a message, so the receiver detects the error after it has received the message.
#include <catch2/catch.hpp>

#include <string>
#include <utility>
#include <vector>

#include "collectives/transport/bundle_testing.hpp"
#include "collectives/transport/p2p/p2p_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

TEST_CASE("exchange: a message of an unexpected length fails the operation of the member that received it") {
  const auto op = GENERATE(operation::allreduce, operation::allgather, operation::broadcast,
                           operation::alltoall, operation::reducescatter);
  // Small tensors are exchanged whole and large tensors in pieces, and the piece of the wrong length may be
  // the last.
  const std::size_t count = GENERATE(std::size_t{16}, std::size_t{3'000'000});
  const std::int32_t shorter = GENERATE(0, 1);
  INFO("operation " << static_cast<int>(op) << " of " << count << ", rank " << shorter << " has less");
  const std::string between = GENERATE(as<std::string>{}, "tcp", "ucx");
  INFO(between);
  job members(between, 2, [=](member& self) {
    const bundle_of own(op, self.rank == shorter ? count - 2 : count);
    const outcome end = self.path->run(own.bundle, self.deadline());
    // The root of a broadcast receives nothing, and may succeed before it learns that the other member has
    // left.
    const bool is_root = op == operation::broadcast && self.rank == 0;
    return std::string(end.error || is_root ? "" : "succeeded");
  });
  CHECK(members.hear(0) == "");
  CHECK(members.hear(1) == "");
}
