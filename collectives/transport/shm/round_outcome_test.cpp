#include "collectives/transport/shm/round_outcome.hpp"

#include <catch2/catch.hpp>
#include <optional>

#include "collectives/transport/paths_testing.hpp"
#include "collectives/transport/shm/interleavings_testing.hpp"
#include "collectives/transport/shm/shm_fast_path.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

constexpr futex_wait patient{futex_wait::polling::yielding, std::chrono::microseconds(5), yield_policy(true)};

/// One member's part of a round as separate steps; the other member may take its steps in between. The value
/// that a step reads is kept for the next step, as in a thread that is interrupted between the two.
struct participant {
  std::unique_ptr<shm_fast_path> own;
  bool leaves; ///< stops waiting if it does not find the round complete
  bool looked_complete = false;
  std::optional<round_outcome> outcome{};

  static constexpr std::size_t steps = 3;
  void take(std::size_t step, const fast_path_cell& cell, std::uint64_t round) {
    const std::byte input[4] = {};
    if (step == 0)
      own->publish(cell, round, input);
    else if (step == 1)
      looked_complete = own->ready(cell, round);
    else if (looked_complete)
      outcome = own->complete(cell, round);
    else if (leaves)
      outcome = own->give_up(cell, round);
  }
};

struct two_participants {
  explicit two_participants(bool first_leaves, bool second_leaves) {
    segment_layout layout;
    layout.members = 2;
    layout.fast_path_bytes = 4096;
    layout.chunk_bytes = 4096;
    const auto segments = make_segments(layout);
    fast_path_task task;
    task.bytes = 4;
    members.push_back({std::make_unique<shm_fast_path>(segments[0], 0, patient), first_leaves});
    members.push_back({std::make_unique<shm_fast_path>(segments[1], 1, patient), second_leaves});
    cell.emplace(*members[0].own->open(1, 0, shm_fast_path::footprint(4), task));
  }
  std::vector<participant> members;
  std::optional<fast_path_cell> cell;
};

} // namespace

TEST_CASE("two members reach the same outcome of a round for every interleaving of their steps") {
  const bool first_leaves = GENERATE(false, true), second_leaves = GENERATE(false, true);
  std::size_t complete = 0, given_up = 0;
  // A member may be killed after any of its steps.
  for (std::size_t first = 0; first <= participant::steps; ++first)
    for (std::size_t second = 0; second <= participant::steps; ++second)
      for_each_interleaving(first, second, [&](const std::vector<std::size_t>& order) {
        two_participants both(first_leaves, second_leaves);
        std::size_t taken[2] = {};
        for (const auto member : order)
          both.members[member].take(taken[member]++, *both.cell, 0);
        std::optional<round_outcome> decided;
        for (const auto& participant : both.members) {
          if (decided && participant.outcome)
            REQUIRE(*decided == *participant.outcome);
          if (participant.outcome)
            decided = participant.outcome;
        }
        complete += decided == round_outcome::complete;
        given_up += decided == round_outcome::given_up;
        // A later decision adopts the outcome, even if it would have been different.
        if (decided)
          for (const auto& participant : both.members) {
            CHECK(participant.own->give_up(*both.cell, 0) == *decided);
            CHECK(participant.own->complete(*both.cell, 0) == *decided);
          }
      });
  CHECK(complete > 0);
  CHECK((given_up > 0) == (first_leaves || second_leaves));
}

TEST_CASE("each round of a half has its own outcome, and an earlier round's outcome stays") {
  round_decision half;
  CHECK_FALSE(half.decided(7, 0));
  CHECK(half.decide(7, 0, round_outcome::complete) == round_outcome::complete);
  CHECK(half.decided(7, 0) == round_outcome::complete);
  CHECK_FALSE(half.decided(7, 2));
  CHECK(half.decide(7, 0, round_outcome::given_up) == round_outcome::complete);
  CHECK(half.decide(7, 2, round_outcome::complete) == round_outcome::complete);
  // A thread that was interrupted in round 0 goes on after round 2 was decided.
  CHECK(half.decide(7, 0, round_outcome::given_up) == round_outcome::complete);
  CHECK(half.decide(7, 4, round_outcome::given_up) == round_outcome::given_up);
  CHECK(half.decide(7, 4, round_outcome::complete) == round_outcome::given_up);
  CHECK(half.decide(8, 0, round_outcome::complete) == round_outcome::complete);
  CHECK(half.decide(9, 0, round_outcome::given_up) == round_outcome::given_up);
}

TEST_CASE("outcomes stay correct when the round number wraps around") {
  round_decision half;
  constexpr std::uint64_t wrap = std::uint64_t{1} << 30;
  CHECK(half.decide(1, wrap - 2, round_outcome::complete) == round_outcome::complete);
  CHECK(half.decide(1, wrap, round_outcome::given_up) == round_outcome::given_up);
  CHECK(half.decide(1, wrap - 2, round_outcome::given_up) == round_outcome::complete);
  CHECK(half.decide(1, wrap, round_outcome::complete) == round_outcome::given_up);
}

TEST_CASE("a retracted round stays retracted, and a complete round is not retracted") {
  two_participants both(true, true);
  for (std::size_t step = 0; step < 1; ++step)
    both.members[0].take(step, *both.cell, 0);
  auto& first = *both.members[0].own;
  auto& second = *both.members[1].own;
  CHECK(first.retract(*both.cell, 0));
  CHECK(first.retract(*both.cell, 0));
  const std::byte input[4] = {};
  second.publish(*both.cell, 0, input); // too late
  CHECK(second.complete(*both.cell, 0) == round_outcome::given_up);
  first.publish(*both.cell, 1, input);
  second.publish(*both.cell, 1, input);
  CHECK(second.complete(*both.cell, 1) == round_outcome::complete);
  CHECK_FALSE(first.retract(*both.cell, 1));
}
