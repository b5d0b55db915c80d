// Members as threads of one process, or several boards on one thread: a process may read its own memory as it
// does another's.
#include <catch2/catch.hpp>
#include <numeric>

#include "collectives/paths/local/board.hpp"
#include "collectives/paths/local/lending_testing.hpp"
#include "collectives/paths/paths_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

constexpr waiting patient{waiting::look::giving_way, std::chrono::microseconds(5), yield_ledger(true)};

struct lenders {
  explicit lenders(std::uint32_t members, bool reach = true)
      : members(members), circles(make_circles(members, reach)), own(members) {
    window_layout layout;
    layout.members = members;
    layout.board_bytes = 4096;
    layout.chunk_bytes = 4096;
    for (auto& shared : make_windows(layout)) {
      const auto rank = boards.size();
      boards.push_back(
          std::make_unique<board>(shared, static_cast<std::uint32_t>(rank), patient, circles[rank]));
    }
  }

  board_cell cell(operation what = operation::allgather, std::uint32_t id = 1, std::int64_t offset = 0) {
    board_task task;
    task.operation = what;
    task.bytes = notice_bytes(members);
    auto opened = boards[0]->open(id, offset, board::footprint(task.bytes), task);
    REQUIRE(opened);
    return *opened;
  }

  void publish(std::uint32_t rank, const board_cell& cell, std::uint64_t round, const bytes& tensor) {
    own[rank] = make_notice(tensor.data(), {},
                            std::vector<std::int64_t>(members, static_cast<std::int64_t>(tensor.size())));
    boards[rank]->publish(cell, round, std::as_bytes(std::span(own[rank])).data());
  }

  /// From several threads at once, so it makes no assertions.
  error take(std::uint32_t rank, const board_cell& cell, std::uint64_t round, bytes& output) {
    const auto all = boards[rank]->notices(cell, round, own[rank]);
    if (!all)
      return all.error();
    const auto plan = plan_taking(operation::allgather, *all, rank, 1);
    if (!plan)
      return plan.error();
    output.assign(plan->bytes, {});
    return boards[rank]->take(cell, round, *plan, output.data());
  }

  std::uint32_t members;
  std::vector<std::shared_ptr<lending_circle>> circles;
  std::vector<std::unique_ptr<board>> boards;
  std::vector<notice> own; ///< what each member has published
};

bytes of_value(std::size_t count, std::uint64_t value) {
  return bytes(count, static_cast<std::byte>(value));
}

} // namespace

TEST_CASE("what is lent comes whole to everybody, round after round") {
  const auto members = GENERATE(1u, 2u, 5u);
  lenders host(members);
  const auto cell = host.cell();
  // A neighbour in the area, which nothing of it may touch.
  const auto beside =
      host.cell(operation::allgather, 2, static_cast<std::int64_t>(board::footprint(notice_bytes(members))));
  for (std::uint32_t rank = 0; rank < members; ++rank)
    host.publish(rank, beside, 0, of_value(1, rank));
  std::atomic<std::uint32_t> wrong{0};
  together(members, [&](std::uint32_t rank) {
    const std::atomic<std::uint32_t> quiet{0};
    auto& mine = *host.boards[rank];
    for (std::uint64_t round = 0; round < 200; ++round) {
      auto tensor = of_value(round % 7 == 0 ? 40'000 : rank + 3, rank + round);
      host.publish(rank, cell, round, tensor);
      while (mine.wait(cell, round, quiet, 0, far()) == wait_end::interrupted) {
      }
      bytes output, wanted;
      const auto problem = host.take(rank, cell, round, output);
      while (mine.wait(cell, round, quiet, 0, far(), board_stage::taken) == wait_end::interrupted) {
      }
      tensor.assign(tensor.size(), std::byte{255}); // all have taken it
      for (std::uint32_t other = 0; other < members; ++other) {
        const auto theirs = of_value(round % 7 == 0 ? 40'000 : other + 3, other + round);
        wanted.insert(wanted.end(), theirs.begin(), theirs.end());
      }
      wrong += problem || output != wanted;
    }
  });
  CHECK(wrong == 0);
  for (std::uint32_t rank = 0; rank < members; ++rank)
    CHECK(host.boards[rank]->ready(beside, 0));
}

TEST_CASE("who has taken waits for those who have not, and says who they are") {
  lenders host(3);
  const auto cell = host.cell();
  const std::vector<bytes> tensors = {of_value(5, 1), of_value(6, 2), of_value(7, 3)};
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    CHECK_FALSE(host.boards[0]->ready(cell, 0));
    host.publish(rank, cell, 0, tensors[rank]);
  }
  CHECK(host.boards[0]->ready(cell, 0));
  bytes output;
  REQUIRE_FALSE(host.take(0, cell, 0, output));
  CHECK(host.boards[0]->missing(cell, 0, board_stage::taken) == std::vector<std::int32_t>{1, 2});
  CHECK(host.boards[1]->missing(cell, 0, board_stage::taken).empty());
  REQUIRE_FALSE(host.take(2, cell, 0, output));
  CHECK(host.boards[0]->missing(cell, 0, board_stage::taken) == std::vector<std::int32_t>{1});
  CHECK_FALSE(host.boards[0]->ready(cell, 0, board_stage::taken));
  REQUIRE_FALSE(host.take(1, cell, 0, output));
  for (auto& each : host.boards)
    CHECK(each->ready(cell, 0, board_stage::taken));
}

TEST_CASE("what a lender has withdrawn is not believed, and nobody is told that it was taken") {
  lenders host(2);
  const auto cell = host.cell();
  const auto first = of_value(5000, 1), second = of_value(6000, 2);
  host.publish(0, cell, 0, first);
  host.publish(1, cell, 0, second);
  const auto all = host.boards[0]->notices(cell, 0, host.own[0]);
  REQUIRE(all);
  const auto plan = plan_taking(operation::allgather, *all, 0, 1);
  REQUIRE(plan);
  host.boards[1]->withdraw(cell, 0);
  bytes output(plan->bytes);
  CHECK(host.boards[0]->take(cell, 0, *plan, output.data()).kind == error_kind::disconnected);
  CHECK_FALSE(host.boards[1]->ready(cell, 0, board_stage::taken));
  CHECK(host.boards[1]->missing(cell, 0, board_stage::taken).empty()); // nobody has
}

TEST_CASE("a lender that has ended is one that has withdrawn") {
  lenders host(2);
  const auto cell = host.cell();
  const auto first = of_value(5000, 1), second = of_value(6000, 2);
  host.publish(0, cell, 0, first);
  host.publish(1, cell, 0, second);
  // As after its end: another process, or none, where the card points.
  auto gone = host.circles[1]->own.card();
  gone.nonce[0] ^= 1;
  host.circles[0]->others[1] = borrower(gone);
  bytes output;
  CHECK(host.take(0, cell, 0, output).kind == error_kind::disconnected);
}

TEST_CASE("memory that cannot be read is an error of the reader alone") {
  lenders host(2);
  const auto cell = host.cell();
  const auto first = of_value(5000, 1);
  host.publish(0, cell, 0, first);
  const std::vector<std::uint64_t> nowhere = {64, 0, 0, 5000, 5000};
  host.boards[1]->publish(cell, 0, std::as_bytes(std::span(nowhere)).data());
  bytes output;
  const auto problem = host.take(0, cell, 0, output);
  CHECK(problem.kind == error_kind::unknown);
  CHECK(problem.text.find("local member 1") != std::string::npos);
  CHECK(host.boards[1]->missing(cell, 0, board_stage::taken).empty());
  const auto others = host.boards[0]->missing(cell, 0, board_stage::taken);
  CHECK(others == std::vector<std::int32_t>{1}); // itself it has done
}

TEST_CASE("a board lends where all reach all, and a notice has its own size") {
  CHECK(lenders(2).boards[0]->lends());
  lenders apart(2, false);
  CHECK_FALSE(apart.boards[0]->lends());
  board_task task;
  task.operation = operation::alltoall;
  task.bytes = notice_bytes(3);
  CHECK_FALSE(apart.boards[0]->open(1, 0, board::footprint(task.bytes), task));
}
