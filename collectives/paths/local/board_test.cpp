#include "collectives/paths/local/board.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <future>
#include <limits>

#include "collectives/math/reduce.hpp"
#include "collectives/paths/paths_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

constexpr waiting patient{waiting::look::giving_way, std::chrono::microseconds(5), yield_ledger(true)};
constexpr std::size_t area = 1 << 20;

window_layout board_layout(std::uint32_t members) {
  window_layout layout;
  layout.members = members;
  layout.board_bytes = area;
  layout.chunk_bytes = 4096;
  return layout;
}

struct host {
  explicit host(std::uint32_t members) : members(members) {
    for (auto& shared : make_windows(board_layout(members)))
      boards.push_back(std::make_unique<board>(shared, static_cast<std::uint32_t>(boards.size()), patient));
  }

  /// A cell that is known to be right.
  board_cell cell(const board_task& task, std::uint32_t id = 1, std::int64_t offset = 128) const {
    auto opened = boards[0]->open(id, offset, board::footprint(task.bytes), task);
    REQUIRE(opened);
    return *opened;
  }

  std::uint32_t members;
  std::vector<std::unique_ptr<board>> boards;
  std::atomic<std::uint32_t> notice{0};
};

/// As a framework thread does it: publish, wait, collect.
error exchange(board& mine, const board_cell& cell, std::uint64_t round, const std::byte* input,
               std::byte* output) {
  static const std::atomic<std::uint32_t> quiet{0};
  mine.publish(cell, round, input);
  for (;;) {
    const auto end = mine.wait(cell, round, quiet, 0, far());
    if (end == wait_end::reached)
      return mine.collect(cell, round, output);
    if (end != wait_end::interrupted)
      return {error_kind::unknown, "the wait did not end well"};
  }
}

board_task floats(std::size_t count) {
  board_task task;
  task.bytes = count * 4;
  return task;
}

bytes filled(std::size_t count, float value) {
  std::vector<float> values(count, value);
  bytes result(count * 4);
  std::memcpy(result.data(), values.data(), result.size());
  return result;
}

} // namespace

TEST_CASE("an allreduce on the board gives every member the bits of one reduction in rank order") {
  const auto members = GENERATE(1u, 2u, 4u, 17u);
  const auto type = GENERATE(dtype::uint8, dtype::int32, dtype::float16, dtype::bfloat16, dtype::float32);
  const auto op = GENERATE(reduce_op::sum, reduce_op::average, reduce_op::max, reduce_op::product);
  const auto count = GENERATE(0u, 1u, 13u, 5000u);
  host here(members);
  board_task task;
  task.dtype = type;
  task.reduce_op = op;
  task.prescale = op == reduce_op::sum ? 0.5 : 1.0;
  task.postscale = op == reduce_op::average ? 3.0 : 1.0;
  task.bytes = count * size_of(type);
  const auto cell = here.cell(task);
  std::mt19937 random(7);
  std::vector<bytes> inputs;
  std::vector<const std::byte*> pointers;
  for (std::uint32_t rank = 0; rank < members; ++rank)
    inputs.push_back(random_elements(type, count, random));
  for (const auto& input : inputs)
    pointers.push_back(input.data());
  bytes wanted(task.bytes);
  reduce(type, op, wanted.data(), pointers, count, task.prescale, task.postscale, members);
  std::vector<bytes> outputs = inputs;
  std::vector<error> errors(members);
  together(members, [&](std::uint32_t rank) { // in place
    errors[rank] = exchange(*here.boards[rank], cell, 0, outputs[rank].data(), outputs[rank].data());
  });
  for (std::uint32_t rank = 0; rank < members; ++rank) {
    REQUIRE(errors[rank].text == "");
    REQUIRE(outputs[rank] == wanted);
  }
}

TEST_CASE("rounds follow each other through both halves, on two cells at once, and never mix") {
  const auto members = GENERATE(2u, 3u);
  host here(members);
  const board_cell cells[] = {here.cell(floats(3), 1, 0), here.cell(floats(700), 2, 64 * 1024)};
  std::atomic<unsigned> wrong{0};
  together(2 * members, [&](std::uint32_t i) {
    const auto& cell = cells[i % 2];
    const std::uint32_t rank = i / 2;
    const std::size_t count = cell.task().bytes / 4;
    bytes tensor(cell.task().bytes);
    for (std::uint64_t round = 0; round < 2000; ++round) {
      tensor = filled(count, static_cast<float>(round * (rank + 1)));
      if (exchange(*here.boards[rank], cell, round, tensor.data(), tensor.data()) ||
          tensor != filled(count, static_cast<float>(round * members * (members + 1) / 2)))
        ++wrong;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("a broadcast on the board gives everybody what its root has, and a barrier holds all") {
  host here(3);
  board_task task = floats(50);
  task.operation = operation::broadcast;
  task.root = 2;
  board_task nothing;
  nothing.operation = operation::broadcast;
  nothing.root = 0;
  const auto cell = here.cell(task);
  const auto empty = here.cell(nothing, 2, 64 * 100);
  std::vector<bytes> outputs(3, bytes(200));
  std::vector<error> errors(3);
  together(3, [&](std::uint32_t rank) {
    const bytes input = filled(50, static_cast<float>(rank + 1));
    errors[rank] =
        exchange(*here.boards[rank], cell, 0, rank == 2 ? input.data() : nullptr, outputs[rank].data());
    exchange(*here.boards[rank], empty, 0, nullptr, nullptr);
  });
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    CHECK_FALSE(errors[rank]);
    CHECK(outputs[rank] == filled(50, 3));
  }
}

TEST_CASE("a fast member publishes the next round while a slow one still reads this one") {
  host here(2);
  const auto cell = here.cell(floats(4));
  auto& fast = *here.boards[0];
  auto& slow = *here.boards[1];
  const bytes one = filled(4, 1), ten = filled(4, 10);
  bytes sum(16);
  for (std::uint64_t round : {0u, 1u, 2u, 3u}) {
    fast.publish(cell, round, one.data());
    if (round > 0) { // the slow member still has the round before to collect
      REQUIRE(slow.ready(cell, round - 1));
      CHECK_FALSE(slow.collect(cell, round - 1, sum.data()));
      CHECK(sum == filled(4, 11));
    }
    CHECK_FALSE(fast.ready(cell, round));
    slow.publish(cell, round, ten.data());
    REQUIRE(fast.ready(cell, round));
    CHECK_FALSE(fast.collect(cell, round, sum.data()));
    CHECK(sum == filled(4, 11));
  }
}

TEST_CASE("the first of those who wait knows who is missing, and the others leave it to that one") {
  using ranks = std::vector<std::int32_t>;
  host all(4);
  board_task task;
  task.operation = operation::broadcast;
  task.root = 0;
  const auto cell = all.cell(task);
  const auto missing = [&](std::size_t rank) { return all.boards[rank]->missing(cell, 0); };
  all.boards[2]->publish(cell, 0, nullptr);
  CHECK(missing(2) == ranks{0, 1, 3});
  CHECK(missing(0).empty());
  CHECK(missing(3).empty());
  all.boards[1]->publish(cell, 0, nullptr);
  CHECK(missing(1) == ranks{0, 3});
  CHECK(missing(2).empty());
  all.boards[0]->publish(cell, 0, nullptr);
  CHECK(missing(0) == ranks{3});
  all.boards[3]->publish(cell, 0, nullptr);
  for (std::size_t rank = 0; rank < 4; ++rank)
    CHECK(missing(rank).empty());
}

TEST_CASE("a round that one member does not join can be taken back, and is never ready") {
  host here(3);
  const auto cell = here.cell(floats(1));
  const bytes one = filled(1, 1);
  here.boards[0]->publish(cell, 0, one.data());
  here.boards[1]->publish(cell, 0, one.data());
  CHECK_FALSE(here.boards[2]->retract(cell, 0)); // it never published
  CHECK(here.boards[0]->retract(cell, 0));
  CHECK(here.boards[0]->retract(cell, 0));       // as it was
  CHECK_FALSE(here.boards[1]->retract(cell, 1)); // another round
  CHECK(here.boards[1]->retract(cell, 0));
  here.boards[2]->publish(cell, 0, one.data());
  for (const auto& one_board : here.boards)
    CHECK_FALSE(one_board->ready(cell, 0));
  // Who has taken its own cell back is told so even where all others are there.
  host pair(2);
  pair.boards[0]->publish(cell, 0, one.data());
  CHECK(pair.boards[0]->retract(cell, 0));
  pair.boards[1]->publish(cell, 0, one.data());
  CHECK(pair.boards[0]->wait(cell, 0, pair.notice, 0, far()) == wait_end::noticed);
}

TEST_CASE("a complete round cannot be taken back") {
  host here(2);
  const auto cell = here.cell(floats(1));
  const bytes one = filled(1, 1);
  here.boards[0]->publish(cell, 0, one.data());
  here.boards[1]->publish(cell, 0, one.data());
  CHECK_FALSE(here.boards[0]->retract(cell, 0));
  CHECK_FALSE(here.boards[1]->retract(cell, 0));
  bytes sum(4);
  CHECK_FALSE(here.boards[0]->collect(cell, 0, sum.data()));
  CHECK(sum == filled(1, 2));
}

TEST_CASE("a sleeping framework thread wakes for news, and finds its cell still its own to take back") {
  host here(2);
  const auto cell = here.cell(floats(1));
  const bytes one = filled(1, 1);
  here.boards[0]->publish(cell, 0, one.data());
  auto end = std::async(std::launch::async, [&] {
    for (;;)
      if (auto how = here.boards[0]->wait(cell, 0, here.notice, 0, far()); how != wait_end::interrupted)
        return how;
  });
  CHECK(here.boards[0]->retract(cell, 0));
  here.notice.store(1);
  wake_local(here.notice);
  CHECK(end.get() == wait_end::noticed);
}

TEST_CASE("a wait on the board ends at its deadline or, for signals, within 100 ms") {
  host here(2);
  const auto cell = here.cell(floats(1));
  const bytes one = filled(1, 1);
  here.boards[0]->publish(cell, 0, one.data());
  const auto soon = steady_clock::now() + std::chrono::milliseconds(2);
  CHECK(here.boards[0]->wait(cell, 0, here.notice, 0, soon) == wait_end::expired);
  CHECK(here.boards[0]->wait(cell, 0, here.notice, 0, steady_clock::time_point::max()) ==
        wait_end::interrupted);
  here.boards[1]->publish(cell, 0, one.data());
  CHECK(here.boards[0]->wait(cell, 0, here.notice, 0, soon) == wait_end::reached);
}

TEST_CASE("what a forgotten id left in a place is never taken for another id's") {
  host here(2);
  const bytes old_bytes = filled(1, 100), one = filled(1, 1);
  const auto old_cell = here.cell(floats(1), 5);
  for (std::uint64_t round : {0u, 1u})
    for (auto& each : here.boards)
      each->publish(old_cell, round, old_bytes.data());
  const auto cell = here.cell(floats(1), 6);
  for (std::uint64_t round : {0u, 1u}) {
    CHECK_FALSE(here.boards[0]->ready(cell, round));
    here.boards[0]->publish(cell, round, one.data());
    CHECK_FALSE(here.boards[0]->ready(cell, round));
    CHECK(here.boards[0]->wait(cell, round, here.notice, 0, {}) == wait_end::expired);
    here.boards[1]->publish(cell, round, one.data());
    bytes sum(4);
    CHECK_FALSE(here.boards[1]->collect(cell, round, sum.data()));
    CHECK(sum == filled(1, 2));
  }
}

TEST_CASE("a cell that was written again before it was read is reported, not believed") {
  host here(2);
  const auto cell = here.cell(floats(1));
  const bytes one = filled(1, 1);
  for (auto& each : here.boards)
    each->publish(cell, 0, one.data());
  here.boards[1]->publish(cell, 2, one.data()); // against the rule: member 0 has not collected round 0
  bytes sum(4);
  CHECK(here.boards[0]->collect(cell, 0, sum.data()).kind == error_kind::unknown);
}

TEST_CASE("a cell outside the board's area is refused, however its numbers are chosen") {
  host here(2);
  const auto kind_of = [&](std::int64_t offset, std::size_t cell_bytes, std::size_t tensor_bytes) {
    const auto opened = here.boards[0]->open(1, offset, cell_bytes, floats(tensor_bytes / 4));
    return opened ? error_kind::none : opened.error().kind;
  };
  const auto most = std::numeric_limits<std::int64_t>::max();
  const auto all = std::numeric_limits<std::size_t>::max();
  CHECK(kind_of(0, area, 4) == error_kind::none);
  CHECK(kind_of(area - 128, 128, 40) == error_kind::none);
  for (std::int64_t offset :
       {std::int64_t{-1}, std::int64_t{-64}, std::int64_t{1}, std::int64_t{63}, most, most - 63,
        std::numeric_limits<std::int64_t>::min(), std::int64_t{area}, std::int64_t{area - 64}})
    CHECK(kind_of(offset, 128, 4) == error_kind::invalid_argument);
  for (std::size_t cell_bytes : {std::size_t{0}, std::size_t{127}, area + 1, all, all - 63})
    CHECK(kind_of(64, cell_bytes, 4) == error_kind::invalid_argument);
  CHECK(kind_of(0, 128, 52) == error_kind::invalid_argument);
  for (std::size_t tensor_bytes : {area, all - 3, all / 2 + 1, all - 63})
    CHECK(kind_of(0, area, tensor_bytes) == error_kind::invalid_argument);
}

TEST_CASE("what the board cannot do is another path's") {
  host here(2);
  const auto kind_of = [&](board_task task) {
    const auto opened = here.boards[0]->open(1, 0, area, task);
    return opened ? error_kind::none : opened.error().kind;
  };
  board_task task = floats(1);
  task.operation = operation::reducescatter;
  CHECK(kind_of(task) == error_kind::unimplemented);
  task = floats(1);
  task.reduce_op = reduce_op::adasum;
  CHECK(kind_of(task) == error_kind::unimplemented);
  task = floats(1);
  task.dtype = dtype::boolean;
  CHECK(kind_of(task) == error_kind::unimplemented);
  task = floats(1);
  task.operation = operation::broadcast;
  for (int root : {-1, 2, 1 << 30}) {
    task.root = root;
    CHECK(kind_of(task) == error_kind::invalid_argument);
  }
  task = floats(1);
  task.bytes = 5;
  CHECK(kind_of(task) == error_kind::invalid_argument);
}

TEST_CASE("processes meet on the board, and one that dies leaves the others free to take back") {
  const auto layout = board_layout(2);
  auto made = window::create(layout);
  const int shared = (*made)->shared_descriptor();
  board_task task = floats(100);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    auto adopted = window::adopt(descriptor(dup(shared)), layout);
    if (!adopted)
      _exit(2);
    board theirs(std::move(*adopted), 1, patient);
    const auto cell = theirs.open(1, 0, board::footprint(task.bytes), task);
    bytes tensor = filled(100, 2);
    for (std::uint64_t round = 0; round < 5; ++round)
      if (exchange(theirs, *cell, round, tensor.data(), tensor.data()))
        _exit(3);
    _exit(7);
  }
  board mine(std::move(*made), 0, patient);
  const auto cell = mine.open(1, 0, board::footprint(task.bytes), task);
  bytes tensor = filled(100, 1);
  for (std::uint64_t round = 0; round < 5; ++round)
    REQUIRE_FALSE(exchange(mine, *cell, round, tensor.data(), tensor.data()));
  CHECK(tensor == filled(100, 48)); // 1 + 2, doubled four times
  mine.publish(*cell, 5, tensor.data());
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 7);
  std::atomic<std::uint32_t> notice{1};
  CHECK(mine.wait(*cell, 5, notice, 0, far()) == wait_end::noticed);
  CHECK(mine.retract(*cell, 5));
}
