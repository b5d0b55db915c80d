#include "actors/door/door.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

/// A member's door whose other side is the test: what comes out of it, and what ids it learns.
struct doorway {
  std::shared_ptr<farandole::door> door = std::make_shared<farandole::door>(0, 1, 64, [] {});
  std::vector<float> tensor = {1, 2, 3};

  pending_ptr submit(told_by told, std::int64_t elements = 3) {
    submission what;
    what.name = "t";
    what.signature.shape = {elements};
    what.input = reinterpret_cast<const std::byte*>(tensor.data());
    what.output = reinterpret_cast<std::byte*>(tensor.data());
    what.told = told;
    auto operation = door->submit(what);
    REQUIRE(operation);
    return *operation;
  }

  /// Submits, and settles what comes out as the lane would; null when it went by the board.
  pending_ptr moved(told_by told) {
    auto operation = submit(told);
    const auto queued = door->take_queue();
    if (queued.empty())
      return {};
    REQUIRE(queued.size() == 1);
    REQUIRE(std::get<pending_ptr>(queued[0]).get() == operation.get());
    REQUIRE(operation->claim_and_settle(phase::queued, {}));
    return operation;
  }

  pending_ptr join() const {
    submission what;
    what.name = "join";
    what.signature.operation = operation::join;
    auto operation = door->submit(what);
    REQUIRE(operation);
    return *operation;
  }

  /// A place on the board of a host with so many members, of which this one is the first.
  std::shared_ptr<board_seat> seat(std::uint32_t id, std::uint32_t members = 1) const {
    window_layout layout;
    layout.members = members;
    layout.board_bytes = 4096;
    layout.chunk_bytes = 4096;
    auto shared = window::create(layout);
    REQUIRE(shared);
    const waiting policy(waiting::look::giving_way, std::chrono::microseconds(5), yield_ledger(true));
    auto board = std::make_shared<farandole::board>(std::move(*shared), 0, policy);
    board_task task;
    task.bytes = tensor.size() * sizeof(float);
    auto cell = board->open(id, 0, farandole::board::footprint(task.bytes), task);
    REQUIRE(cell);
    return std::make_shared<board_seat>(std::move(board), *cell);
  }
};

} // namespace

TEST_CASE("what is left to a callback asks for no seat, in full and by its id", "[door]") {
  doorway one;
  const auto first = one.moved(told_by::callback);
  REQUIRE(first);
  CHECK(first->id == 0);
  CHECK(first->seatless);
  one.door->learn(1, *first, nullptr);
  const auto second = one.moved(told_by::callback);
  REQUIRE(second);
  CHECK(second->id == 1);
  CHECK(second->seatless); // whoever asks what is meant by the id hears it
  CHECK(second->left.empty());
}

TEST_CASE("what is left to a callback leaves the seat that its name has", "[door]") {
  doorway one;
  const auto how = GENERATE(told_by::anyhow, told_by::waiting);
  const auto first = one.moved(how);
  REQUIRE(first);
  CHECK_FALSE(first->seatless);
  one.door->learn(1, *first, one.seat(1));
  for (int round = 0; round < 3; ++round)
    CHECK_FALSE(one.moved(how));
  CHECK(one.door->on_board() == 3);

  const auto leaving = one.moved(told_by::callback);
  REQUIRE(leaving);
  CHECK(leaving->id == 0);
  CHECK(leaving->seatless);
  CHECK(leaving->left == std::vector<board_round>{{1, 3}});

  // Who waits again is not kept from the board by this member.
  one.door->learn(2, *leaving, nullptr);
  const auto last = one.moved(how);
  REQUIRE(last);
  CHECK(last->id == 2);
  CHECK_FALSE(last->seatless);
  CHECK(last->left.empty());
}

TEST_CASE("rows have a seat for who waits for them at once, and for nobody else", "[door]") {
  doorway one;
  const auto asked = [&](operation what, told_by told) {
    submission rows;
    rows.name = what == operation::alltoall ? "a" : "g";
    rows.signature.operation = what;
    rows.signature.shape = {3};
    rows.input = reinterpret_cast<const std::byte*>(one.tensor.data());
    rows.told = told;
    auto operation = one.door->submit(rows);
    REQUIRE(operation);
    const auto seatless = (*operation)->seatless;
    one.door->take_queue();
    REQUIRE((*operation)->claim_and_settle(phase::queued, {}));
    return !seatless;
  };
  for (const auto what : {operation::alltoall, operation::allgather}) {
    CHECK(asked(what, told_by::waiting));
    CHECK_FALSE(asked(what, told_by::anyhow));
    CHECK_FALSE(asked(what, told_by::callback));
  }
}

TEST_CASE("who joins takes an open round with it to the leader, ahead of the join", "[door]") {
  doorway one;
  const auto first = one.moved(told_by::anyhow);
  REQUIRE(first);
  one.door->learn(1, *first, one.seat(1, 2));
  const auto open = one.submit(told_by::anyhow);
  CHECK(one.door->take_queue().empty());
  REQUIRE(open->now() == phase::boarded);

  const auto join = one.join();
  const auto queued = one.door->take_queue();
  REQUIRE(queued.size() == 2);
  CHECK(std::get<pending_ptr>(queued[0]).get() == open.get());
  CHECK(open->now() == phase::queued);
  CHECK(open->id == 0);
  CHECK(open->left == std::vector<board_round>{{1, 0}});
  CHECK(std::get<pending_ptr>(queued[1]).get() == join.get());
  CHECK(join->left.empty());
}

TEST_CASE("who joins leaves the next round where the last is complete", "[door]") {
  doorway one;
  const auto first = one.moved(told_by::anyhow);
  REQUIRE(first);
  one.door->learn(1, *first, one.seat(1));
  const auto complete = one.submit(told_by::anyhow);
  const auto join = one.join();
  CHECK(complete->settled());
  CHECK_FALSE(complete->problem);
  REQUIRE(one.door->take_queue().size() == 1);
  CHECK(join->left == std::vector<board_round>{{1, 1}});
}
