// Two members of one process, each with an operation of the same name on the board.
#include <catch2/catch.hpp>

#include "actors/door/pending.hpp"
#include "collectives/paths/local/lending_testing.hpp"
#include "collectives/paths/paths_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

constexpr waiting patient{waiting::look::giving_way, std::chrono::microseconds(5), yield_ledger(true)};
const error over{error_kind::disconnected, "the generation is over"};

struct pair_of_members {
  pair_of_members() {
    window_layout layout;
    layout.members = 2;
    layout.board_bytes = 4096;
    layout.chunk_bytes = 4096;
    const auto windows = make_windows(layout);
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      auto board = std::make_shared<farandole::board>(windows[rank], rank, patient, circles[rank]);
      board_task task;
      task.operation = operation::alltoall;
      task.bytes = notice_bytes(2);
      auto cell = board->open(1, 0, farandole::board::footprint(task.bytes), task);
      REQUIRE(cell);
      seats[rank] = std::make_shared<board_seat>(board, *cell, std::make_shared<result_memory>());
    }
  }

  /// Rank r gives (10 r, 10 r + 1), one row to each.
  void sit(std::uint32_t rank, std::uint64_t round = 0) {
    tensors[rank] = {static_cast<float>(10 * rank), static_cast<float>(10 * rank + 1)};
    auto& one = operations[rank];
    one = pending_ptr::make();
    one->name.assign(1, 't');
    one->signature.operation = operation::alltoall;
    one->signature.shape = {2};
    one->lends = true;
    one->seat = seats[rank];
    one->round = round;
    one->start_on_board();
    const auto words = make_notice(reinterpret_cast<const std::byte*>(tensors[rank].data()),
                                   std::vector<std::int64_t>{1, 1});
    seats[rank]->board().publish(seats[rank]->cell(), round, std::as_bytes(std::span(words)).data());
  }

  std::vector<float> result(std::uint32_t rank) const {
    const auto& bytes = operations[rank]->outcome.bytes;
    const auto* first = reinterpret_cast<const float*>(bytes.data());
    return {first, first + bytes.size() / sizeof(float)};
  }

  std::vector<std::shared_ptr<lending_circle>> circles = make_circles(2);
  std::shared_ptr<board_seat> seats[2];
  pending_ptr operations[2];
  std::vector<float> tensors[2];
};

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
  const std::vector<std::uint64_t> nowhere = {64, 1, 0}; // its own row would be read there, too
  both.seats[1]->board().publish(both.seats[1]->cell(), 1, std::as_bytes(std::span(nowhere)).data());
  both.sit(0, 1);
  CHECK_FALSE(both.operations[0]->try_settle());
  CHECK(both.operations[0]->now() == phase::lent);
  both.operations[1]->round = 1;
  CHECK(both.operations[1]->try_settle());
  CHECK_FALSE(both.operations[1]->problem);
  CHECK(both.operations[0]->try_settle());
  CHECK(both.operations[0]->problem.text.find("t: could not read the memory of local member 1") == 0);
}
