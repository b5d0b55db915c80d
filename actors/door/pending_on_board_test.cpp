#include "actors/door/pending_testing.hpp"
#include "collectives/paths/local/interleavings_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

const error over{error_kind::disconnected, "the generation is over"};

} // namespace

TEST_CASE("what is lent is taken by who may, and ends when all have", "[pending]") {
  pair_of_members both;
  for (std::uint64_t round = 0; round < 3; ++round) {
    both.sit(0, round);
    CHECK_FALSE(both.operations[0]->try_settle());
    CHECK(both.operations[0]->now() == phase::boarded);
    both.sit(1, round);
    CHECK(both.operations[0]->can_take());
    CHECK_FALSE(both.operations[0]->try_settle(pending::mover::nobody));
    CHECK(both.operations[0]->now() == phase::boarded);
    CHECK_FALSE(both.operations[0]->try_settle());
    CHECK(both.operations[0]->now() == phase::lent);
    CHECK_FALSE(both.operations[0]->can_take());
    CHECK(both.operations[1]->try_settle());
    CHECK(both.operations[0]->try_settle(pending::mover::nobody));
    CHECK_FALSE(both.operations[0]->problem);
    CHECK(both.result(0) == std::vector<float>{0, 10});
    CHECK(both.result(1) == std::vector<float>{1, 11});
    CHECK(both.operations[1]->outcome.first_dims == std::vector<std::int64_t>{1, 1});
  }
}

TEST_CASE("the end of a generation settles what waits for others, at either stage", "[pending]") {
  pair_of_members both;
  const bool taken = GENERATE(false, true);
  both.sit(0);
  if (taken) {
    both.sit(1);
    CHECK_FALSE(both.operations[0]->try_settle());
    REQUIRE(both.operations[0]->now() == phase::lent);
  }
  CHECK(both.operations[0]->end_on_board(over));
  CHECK(both.operations[0]->problem.text == over.text);
  if (!taken)
    return;
  // What it had lent is not believed any more: the other cannot take it, and hears of the end as well.
  CHECK_FALSE(both.operations[1]->try_settle());
  CHECK(both.operations[1]->now() != phase::lent);
  CHECK(both.operations[1]->end_on_board(over));
  CHECK(both.operations[1]->problem.text == over.text);
}

TEST_CASE("the end of a generation settles well what all have taken", "[pending]") {
  pair_of_members both;
  both.sit(0);
  both.sit(1);
  CHECK_FALSE(both.operations[0]->try_settle());
  CHECK(both.operations[1]->try_settle());
  CHECK(both.operations[0]->end_on_board(over));
  CHECK_FALSE(both.operations[0]->problem);
  CHECK(both.result(0) == std::vector<float>{0, 10});
}

TEST_CASE("who is taking is not ended under its hands", "[pending]") {
  pair_of_members both;
  both.sit(0);
  both.sit(1);
  REQUIRE(both.operations[0]->advance(phase::boarded, phase::taking));
  CHECK_FALSE(both.operations[0]->end_on_board(over));
  CHECK_FALSE(both.operations[0]->settled());
  REQUIRE(both.operations[0]->advance(phase::taking, phase::stranded));
  CHECK(both.operations[0]->end_on_board(over));
  CHECK(both.operations[0]->problem.text == over.text);
}

TEST_CASE("who cannot take fails alone, once the others have theirs", "[pending]") {
  pair_of_members both;
  both.sit(0);
  both.sit(1);
  both.begin(1, 1);
  both.show(1, 1, {64, 0, 0, 1, 0}); // its own row would be read there, too
  both.sit(0, 1);
  CHECK_FALSE(both.operations[0]->try_settle());
  CHECK(both.operations[0]->now() == phase::lent);
  CHECK(both.operations[1]->try_settle());
  CHECK_FALSE(both.operations[1]->problem);
  CHECK(both.operations[0]->try_settle());
  CHECK(both.operations[0]->problem.text.find("t: could not read the memory of local member 1") == 0);
}

TEST_CASE("a member that leaves the board and one that waits there leave it together, or both succeed",
          "[pending]") {
  const auto kind = GENERATE(operation::allreduce, operation::alltoall);
  const std::size_t looks = GENERATE(0u, 1u, 2u);
  std::size_t completed = 0;
  const auto count = for_each_interleaving(3, 1 + looks, [&](const std::vector<std::size_t>& order) {
    pair_of_members both(1, 0, kind);
    auto left = pending::leaving::busy;
    std::size_t steps[2] = {};
    for (const auto member : order) {
      const auto step = steps[member]++;
      if (step == 0)
        both.sit(static_cast<std::uint32_t>(member));
      else if (member == 1 || step == 1)
        both.operations[member]->try_settle();
      else
        left = both.operations[0]->leave_board();
    }
    REQUIRE(left != pending::leaving::busy);
    // The leader tells the other one of a round that was left.
    if (left == pending::leaving::left) {
      REQUIRE((both.operations[1]->leave_board() == left));
      for (const auto& operation : both.operations)
        REQUIRE(operation->now() == phase::queued);
      return;
    }
    ++completed;
    for (const auto& operation : both.operations) {
      operation->try_settle();
      REQUIRE(operation->settled());
      REQUIRE_FALSE(operation->problem);
    }
  });
  CHECK(completed < count);
  CHECK((kind == operation::alltoall || completed > 0));
}

TEST_CASE("who is taking leaves the board afterwards", "[pending]") {
  pair_of_members both;
  both.sit(0);
  both.sit(1);
  REQUIRE(both.operations[0]->advance(phase::boarded, phase::taking));
  CHECK(both.operations[0]->leave_board() == pending::leaving::busy);
  REQUIRE(both.operations[0]->advance(phase::taking, phase::lent));
  CHECK(both.operations[0]->leave_board() == pending::leaving::left);
  CHECK(both.operations[0]->leave_board() == pending::leaving::stays);
}
