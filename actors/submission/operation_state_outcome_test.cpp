// Two survivors of a lost member: each learns at another time, during a round, that the generation has ended.
#include "actors/submission/operation_state_testing.hpp"
#include "collectives/transport/shm/interleavings_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

const error over{error_kind::disconnected, "the generation is over"};

/// The steps of a member's operation in a generation that ends: the member publishes, its caller tries `looks` times
/// to settle, and the event loop ends the operation.
struct ending_member {
  pair_of_members& both;
  std::uint32_t rank;
  std::size_t looks;
  std::size_t step = 0;

  std::size_t steps() const { return 2 + looks; }
  void take_step() {
    const auto current = step++;
    auto& operation = both.operations[rank];
    if (current == 0)
      both.publish(rank);
    else if (current <= looks)
      operation->try_settle();
    else
      CHECK(operation->end_on_fast_path(over));
  }
};

} // namespace

TEST_CASE("the members of a round succeed or fail together, no matter when each learns of the end",
          "[operation_state]") {
  auto shapes = all_collectives();
  shapes.push_back({operation::allreduce, 1, true});
  const auto shape = GENERATE_COPY(from_range(shapes));
  const std::size_t first_looks = GENERATE(0u, 1u, 2u, 4u), second_looks = GENERATE(0u, 1u, 2u, 4u);
  std::size_t succeeded = 0;
  const auto count =
      for_each_interleaving(2 + first_looks, 2 + second_looks, [&](const std::vector<std::size_t>& order) {
        pair_of_members both(shape);
        ending_member members[] = {{both, 0, first_looks}, {both, 1, second_looks}};
        for (const auto member : order)
          members[member].take_step();
        for (std::uint32_t rank = 0; rank < 2; ++rank)
          REQUIRE(both.operations[rank]->settled());
        REQUIRE(both.operations[0]->problem.text == both.operations[1]->problem.text);
        if (both.operations[0]->problem)
          return;
        ++succeeded;
        for (std::uint32_t rank = 0; rank < 2; ++rank)
          REQUIRE(both.result(rank) == both.wanted(rank));
      });
  CHECK(succeeded < count);
  // An allreduce succeeds if all cells are published when the first member is told of the end.
  CHECK((!shape.in_cells || succeeded > 0));
}

TEST_CASE("a member that enters a round after it was given up waits until its own generation ends",
          "[operation_state]") {
  pair_of_members both({operation::allreduce, 1, true});
  both.publish(0);
  CHECK(both.operations[0]->end_on_fast_path(over));
  both.publish(1);
  CHECK_FALSE(both.operations[1]->try_settle());
  CHECK(both.operations[1]->now() == phase::stranded);
  CHECK_FALSE(both.operations[1]->awaited());
  CHECK(both.operations[1]->end_on_fast_path(over));
  CHECK(both.operations[1]->problem.text == over.text);
}
