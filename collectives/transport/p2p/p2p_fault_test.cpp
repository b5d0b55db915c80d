// A message that fails ends the operation that it belongs to, on the member that took it. Here the members
// disagree about how long a message is, so that the receiver has taken what came when it finds out.
#include <catch2/catch.hpp>

#include <string>
#include <utility>
#include <vector>

#include "collectives/transport/bundle_testing.hpp"
#include "collectives/transport/p2p/p2p_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

TEST_CASE("exchange: a message of another length fails the operation that took it, on that member") {
  const auto op = GENERATE(operation::allreduce, operation::allgather, operation::broadcast,
                           operation::alltoall, operation::reducescatter);
  // Small tensors are exchanged whole, large ones in pieces, and then the wrong one may be the last.
  const std::size_t count = GENERATE(std::size_t{16}, std::size_t{3'000'000});
  const std::int32_t shorter = GENERATE(0, 1);
  INFO("operation " << static_cast<int>(op) << " of " << count << ", rank " << shorter << " has less");
  const std::string between = GENERATE(as<std::string>{}, "tcp", "ucx");
  INFO(between);
  job members(between, 2, [=](member& self) {
    const bundle_of own(op, self.rank == shorter ? count - 2 : count);
    const outcome end = self.path->run(own.bundle, self.deadline());
    // Who gives in a broadcast takes nothing, and may end well before it hears that the other one has left.
    const bool gives = op == operation::broadcast && self.rank == 0;
    return std::string(end.error || gives ? "" : "succeeded");
  });
  CHECK(members.hear(0) == "");
  CHECK(members.hear(1) == "");
}
