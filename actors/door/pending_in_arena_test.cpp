// Operations whose members write into each other's places.
#include "actors/door/pending_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

const error over{error_kind::disconnected, "the generation is over"};

constexpr std::int64_t row = 64 << 10; // floats
constexpr std::size_t row_bytes = row * sizeof(float);
constexpr std::size_t arena_bytes = std::size_t{32} << 20;

struct writers : pair_of_members {
  writers() : pair_of_members(row, arena_bytes) {}

  bool came(std::uint32_t rank) const {
    std::vector<float> wanted(row, static_cast<float>(rank));
    wanted.resize(2 * row, static_cast<float>(10 + rank));
    return result(rank) == wanted;
  }
  /// What a member's place is, or was.
  const std::byte* place(std::uint32_t rank) const { return operations[rank]->owned.get(); }
};

} // namespace

TEST_CASE("members write into each other's places, round after round", "[pending]") {
  writers both;
  const std::byte* first = nullptr;
  for (std::uint64_t round = 0; round < 3; ++round) {
    both.sit(0, round);
    both.sit(1, round);
    CHECK(both.operations[0]->placed);
    CHECK(both.place(0) == (first ? first : both.place(0))); // the same memory, warm
    first = both.place(0);
    CHECK_FALSE(both.operations[0]->try_settle());
    CHECK(both.operations[1]->try_settle());
    CHECK(both.operations[0]->try_settle(pending::mover::nobody));
    CHECK_FALSE(both.operations[0]->problem);
    CHECK(both.came(0));
    CHECK(both.came(1));
    CHECK(both.operations[0]->outcome.bytes.data() == both.place(0));
    both.operations[0]->let_go();
    both.operations[1]->let_go();
  }
}

TEST_CASE("one without a place copies by itself, the other is written to", "[pending]") {
  writers both;
  const auto full = both.circles[1]->own_arena->take(arena_bytes);
  REQUIRE(full);
  both.sit(0);
  both.sit(1);
  CHECK(both.operations[0]->placed);
  CHECK_FALSE(both.operations[1]->placed);
  CHECK_FALSE(both.operations[0]->try_settle());
  CHECK(both.operations[1]->try_settle());
  CHECK(both.operations[0]->try_settle());
  CHECK(both.came(0));
  CHECK(both.came(1));
}

TEST_CASE("a place that is too small is left, and the next is large enough", "[pending]") {
  writers both;
  for (std::uint64_t round = 0; round < 2; ++round) {
    both.sit(0, round);
    both.begin(1, round);
    both.operations[1]->splits = {2, 0}; // all to rank 0
    both.show(1, round, both.operations[1]->own_notice());
    const auto* shown = both.place(0);
    CHECK_FALSE(both.operations[0]->try_settle());
    CHECK(both.operations[1]->try_settle());
    CHECK(both.operations[0]->try_settle());
    CHECK_FALSE(both.operations[0]->problem);
    CHECK(both.operations[0]->outcome.bytes.size() == 3 * row_bytes);
    CHECK((both.place(0) == shown) == (round == 1));
    CHECK(both.result(0).back() == 11);
  }
}

TEST_CASE("a place that somebody may write to yet is not used again", "[pending]") {
  writers both;
  const bool taken = GENERATE(false, true);
  both.sit(0);
  both.sit(1);
  const auto* place = both.place(0);
  if (taken)
    CHECK_FALSE(both.operations[0]->try_settle());
  CHECK(both.operations[0]->end_on_board(over));
  CHECK(both.operations[0]->problem.text == over.text);
  both.operations[0]->let_go();
  CHECK(both.seats[0]->results().kept() == 0);
  // The other finds out only after it has written.
  both.sit(0, 1);
  CHECK(both.place(0) != place);
  CHECK_FALSE(both.operations[1]->try_settle());
  CHECK(both.operations[1]->now() != phase::lent);
  CHECK(both.operations[1]->end_on_board(over));
}

TEST_CASE("what is taken off the board leaves its place", "[pending]") {
  writers both;
  both.sit(0);
  CHECK(both.operations[0]->leave_board() == pending::leaving::left);
  CHECK_FALSE(both.operations[0]->placed);
  CHECK_FALSE(both.operations[0]->owned);
  CHECK(both.seats[0]->results().kept() == 0);
}

TEST_CASE("who is told of a place that cannot be says so to those who wait for it", "[pending]") {
  writers both;
  both.sit(0);
  both.begin(1, 0);
  auto place = both.operations[1]->take_place();
  place.at = arena_bytes - 1;
  both.show(1, 0, make_notice(both.tensor(1), place, std::vector<std::int64_t>{1, 1}));
  CHECK_FALSE(both.operations[0]->try_settle());
  CHECK(both.operations[1]->try_settle());
  CHECK(both.operations[1]->problem.text.find("t: a local member could not write") == 0);
  CHECK(both.operations[0]->try_settle());
  CHECK(both.operations[0]->problem.text.find("t: local member 1 has no place for") == 0);
}
