#include "collectives/transport/shm/shm_fast_path.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <future>
#include <limits>

#include "collectives/math/reduce.hpp"
#include "collectives/transport/paths_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

constexpr futex_wait long_wait{futex_wait::polling::yielding, std::chrono::microseconds(5),
                               yield_policy(true)};
constexpr std::size_t area = 1 << 20;

segment_layout fast_path_layout(std::uint32_t members) {
  segment_layout layout;
  layout.members = members;
  layout.fast_path_bytes = area;
  layout.chunk_bytes = 4096;
  return layout;
}

struct host {
  explicit host(std::uint32_t members) : members(members) {
    for (auto& shared : make_segments(fast_path_layout(members)))
      fast_paths.push_back(
          std::make_unique<shm_fast_path>(shared, static_cast<std::uint32_t>(fast_paths.size()), long_wait));
  }

  /// Opens a cell with valid parameters.
  fast_path_cell cell(const fast_path_task& task, std::uint32_t id = 1, std::int64_t offset = 128) const {
    auto opened = fast_paths[0]->open(id, offset, shm_fast_path::footprint(task.bytes), task);
    REQUIRE(opened);
    return *opened;
  }

  std::uint32_t members;
  std::vector<std::unique_ptr<shm_fast_path>> fast_paths;
  std::atomic<std::uint32_t> event_word{0};
};

/// Completes a round like a framework thread: publishes, waits and collects.
error exchange(shm_fast_path& own, const fast_path_cell& cell, std::uint64_t round, const std::byte* input,
               std::byte* output) {
  static const std::atomic<std::uint32_t> quiet{0};
  own.publish(cell, round, input);
  for (;;) {
    const auto end = own.wait(cell, round, quiet, 0, far());
    if (end == wait_end::reached)
      return own.collect(cell, round, output);
    if (end != wait_end::interrupted)
      return {error_kind::unknown, "the wait did not end well"};
  }
}

fast_path_task floats(std::size_t count) {
  fast_path_task task;
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

TEST_CASE("an allreduce on the fast path gives every member the bits of one reduction in rank order") {
  const auto members = GENERATE(1u, 2u, 4u, 17u);
  const auto type = GENERATE(dtype::uint8, dtype::int32, dtype::float16, dtype::bfloat16, dtype::float32);
  const auto op = GENERATE(reduce_op::sum, reduce_op::average, reduce_op::max, reduce_op::product);
  const auto count = GENERATE(0u, 1u, 13u, 5000u);
  host local_host(members);
  fast_path_task task;
  task.dtype = type;
  task.reduce_op = op;
  task.prescale = op == reduce_op::sum ? 0.5 : 1.0;
  task.postscale = op == reduce_op::average ? 3.0 : 1.0;
  task.bytes = count * size_of(type);
  const auto cell = local_host.cell(task);
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
    errors[rank] =
        exchange(*local_host.fast_paths[rank], cell, 0, outputs[rank].data(), outputs[rank].data());
  });
  for (std::uint32_t rank = 0; rank < members; ++rank) {
    REQUIRE(errors[rank].text == "");
    REQUIRE(outputs[rank] == wanted);
  }
}

TEST_CASE("consecutive rounds on two cells at once never mix their data") {
  const auto members = GENERATE(2u, 3u);
  host local_host(members);
  const fast_path_cell cells[] = {local_host.cell(floats(3), 1, 0),
                                  local_host.cell(floats(700), 2, 64 * 1024)};
  std::atomic<unsigned> wrong{0};
  together(2 * members, [&](std::uint32_t i) {
    const auto& cell = cells[i % 2];
    const std::uint32_t rank = i / 2;
    const std::size_t count = cell.task().bytes / 4;
    bytes tensor(cell.task().bytes);
    for (std::uint64_t round = 0; round < 2000; ++round) {
      tensor = filled(count, static_cast<float>(round * (rank + 1)));
      if (exchange(*local_host.fast_paths[rank], cell, round, tensor.data(), tensor.data()) ||
          tensor != filled(count, static_cast<float>(round * members * (members + 1) / 2)))
        ++wrong;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("a broadcast on the fast path gives every member the root's tensor, also an empty one") {
  host local_host(3);
  fast_path_task task = floats(50);
  task.operation = operation::broadcast;
  task.root = 2;
  fast_path_task nothing;
  nothing.operation = operation::broadcast;
  nothing.root = 0;
  const auto cell = local_host.cell(task);
  const auto empty = local_host.cell(nothing, 2, 64 * 100);
  std::vector<bytes> outputs(3, bytes(200));
  std::vector<error> errors(3);
  together(3, [&](std::uint32_t rank) {
    const bytes input = filled(50, static_cast<float>(rank + 1));
    errors[rank] = exchange(*local_host.fast_paths[rank], cell, 0, rank == 2 ? input.data() : nullptr,
                            outputs[rank].data());
    exchange(*local_host.fast_paths[rank], empty, 0, nullptr, nullptr);
  });
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    CHECK_FALSE(errors[rank]);
    CHECK(outputs[rank] == filled(50, 3));
  }
}

TEST_CASE("a fast member can publish the next round while a slow member still reads this one") {
  host local_host(2);
  const auto cell = local_host.cell(floats(4));
  auto& fast = *local_host.fast_paths[0];
  auto& slow = *local_host.fast_paths[1];
  const bytes part = filled(4, 1), ten = filled(4, 10);
  bytes sum(16);
  for (std::uint64_t round : {0u, 1u, 2u, 3u}) {
    fast.publish(cell, round, part.data());
    if (round > 0) { // the slow member has not collected the previous round
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

TEST_CASE("only the lowest rank that has published lists the missing members") {
  using ranks = std::vector<std::int32_t>;
  host all(4);
  fast_path_task task;
  task.operation = operation::broadcast;
  task.root = 0;
  const auto cell = all.cell(task);
  const auto missing = [&](std::size_t rank) { return all.fast_paths[rank]->missing(cell, 0); };
  all.fast_paths[2]->publish(cell, 0, nullptr);
  CHECK(missing(2) == ranks{0, 1, 3});
  CHECK(missing(0).empty());
  CHECK(missing(3).empty());
  all.fast_paths[1]->publish(cell, 0, nullptr);
  CHECK(missing(1) == ranks{0, 3});
  CHECK(missing(2).empty());
  all.fast_paths[0]->publish(cell, 0, nullptr);
  CHECK(missing(0) == ranks{3});
  all.fast_paths[3]->publish(cell, 0, nullptr);
  for (std::size_t rank = 0; rank < 4; ++rank)
    CHECK(missing(rank).empty());
}

TEST_CASE("a round that one member has not published can be retracted, and never becomes ready") {
  host local_host(3);
  const auto cell = local_host.cell(floats(1));
  const bytes part = filled(1, 1);
  local_host.fast_paths[0]->publish(cell, 0, part.data());
  local_host.fast_paths[1]->publish(cell, 0, part.data());
  CHECK_FALSE(local_host.fast_paths[2]->retract(cell, 0)); // member 2 has not published
  CHECK(local_host.fast_paths[0]->retract(cell, 0));
  CHECK(local_host.fast_paths[0]->retract(cell, 0));       // a second retraction changes nothing
  CHECK_FALSE(local_host.fast_paths[1]->retract(cell, 1)); // another round
  CHECK(local_host.fast_paths[1]->retract(cell, 0));
  local_host.fast_paths[2]->publish(cell, 0, part.data());
  for (const auto& fast_path : local_host.fast_paths)
    CHECK_FALSE(fast_path->ready(cell, 0));
  // A member that has retracted its round is notified even if all other members have published.
  host pair(2);
  pair.fast_paths[0]->publish(cell, 0, part.data());
  CHECK(pair.fast_paths[0]->retract(cell, 0));
  pair.fast_paths[1]->publish(cell, 0, part.data());
  CHECK(pair.fast_paths[0]->wait(cell, 0, pair.event_word, 0, far()) == wait_end::noticed);
}

TEST_CASE("a complete round on the fast path cannot be retracted") {
  host local_host(2);
  const auto cell = local_host.cell(floats(1));
  const bytes part = filled(1, 1);
  local_host.fast_paths[0]->publish(cell, 0, part.data());
  local_host.fast_paths[1]->publish(cell, 0, part.data());
  CHECK_FALSE(local_host.fast_paths[0]->retract(cell, 0));
  // Nor by a member that has just found it incomplete, and gives it up.
  CHECK(local_host.fast_paths[1]->give_up(cell, 0) == round_outcome::complete);
  CHECK_FALSE(local_host.fast_paths[1]->retract(cell, 0));
  bytes sum(4);
  CHECK_FALSE(local_host.fast_paths[0]->collect(cell, 0, sum.data()));
  CHECK(sum == filled(1, 2));
}

TEST_CASE("a sleeping framework thread wakes on an event after its round was retracted") {
  host local_host(2);
  const auto cell = local_host.cell(floats(1));
  const bytes part = filled(1, 1);
  local_host.fast_paths[0]->publish(cell, 0, part.data());
  auto end = std::async(std::launch::async, [&] {
    for (;;)
      if (auto outcome = local_host.fast_paths[0]->wait(cell, 0, local_host.event_word, 0, far());
          outcome != wait_end::interrupted)
        return outcome;
  });
  CHECK(local_host.fast_paths[0]->retract(cell, 0));
  local_host.event_word.store(1);
  wake_local(local_host.event_word);
  CHECK(end.get() == wait_end::noticed);
}

TEST_CASE("a wait on the fast path ends at its deadline, and returns within 100 ms for signals") {
  host local_host(2);
  const auto cell = local_host.cell(floats(1));
  const bytes part = filled(1, 1);
  local_host.fast_paths[0]->publish(cell, 0, part.data());
  const auto soon = steady_clock::now() + std::chrono::milliseconds(2);
  CHECK(local_host.fast_paths[0]->wait(cell, 0, local_host.event_word, 0, soon) == wait_end::expired);
  CHECK(local_host.fast_paths[0]->wait(cell, 0, local_host.event_word, 0, steady_clock::time_point::max()) ==
        wait_end::interrupted);
  local_host.fast_paths[1]->publish(cell, 0, part.data());
  CHECK(local_host.fast_paths[0]->wait(cell, 0, local_host.event_word, 0, soon) == wait_end::reached);
}

TEST_CASE("data of a forgotten id in a cell is never taken for data of another id") {
  host local_host(2);
  const bytes old_bytes = filled(1, 100), part = filled(1, 1);
  const auto old_cell = local_host.cell(floats(1), 5);
  for (std::uint64_t round : {0u, 1u})
    for (auto& fast_path : local_host.fast_paths)
      fast_path->publish(old_cell, round, old_bytes.data());
  const auto cell = local_host.cell(floats(1), 6);
  for (std::uint64_t round : {0u, 1u}) {
    CHECK_FALSE(local_host.fast_paths[0]->ready(cell, round));
    local_host.fast_paths[0]->publish(cell, round, part.data());
    CHECK_FALSE(local_host.fast_paths[0]->ready(cell, round));
    CHECK(local_host.fast_paths[0]->wait(cell, round, local_host.event_word, 0, {}) == wait_end::expired);
    local_host.fast_paths[1]->publish(cell, round, part.data());
    bytes sum(4);
    CHECK_FALSE(local_host.fast_paths[1]->collect(cell, round, sum.data()));
    CHECK(sum == filled(1, 2));
  }
}

TEST_CASE("a cell that is overwritten before it is collected gives an error") {
  host local_host(2);
  const auto cell = local_host.cell(floats(1));
  const bytes part = filled(1, 1);
  for (auto& fast_path : local_host.fast_paths)
    fast_path->publish(cell, 0, part.data());
  local_host.fast_paths[1]->publish(cell, 2,
                                    part.data()); // breaks the rule: member 0 has not collected round 0
  bytes sum(4);
  CHECK(local_host.fast_paths[0]->collect(cell, 0, sum.data()).kind == error_kind::unknown);
}

TEST_CASE("a cell outside the fast path's area is refused, also for numbers that overflow") {
  host local_host(2);
  const auto kind_of = [&](std::int64_t offset, std::size_t cell_bytes, std::size_t tensor_bytes) {
    const auto opened = local_host.fast_paths[0]->open(1, offset, cell_bytes, floats(tensor_bytes / 4));
    return opened ? error_kind::none : opened.error().kind;
  };
  const auto limit = std::numeric_limits<std::int64_t>::max();
  const auto all = std::numeric_limits<std::size_t>::max();
  CHECK(kind_of(0, area, 4) == error_kind::none);
  CHECK(kind_of(area - 128, 128, 32) == error_kind::none);
  for (std::int64_t offset :
       {std::int64_t{-1}, std::int64_t{-64}, std::int64_t{1}, std::int64_t{63}, limit, limit - 63,
        std::numeric_limits<std::int64_t>::min(), std::int64_t{area}, std::int64_t{area - 64}})
    CHECK(kind_of(offset, 128, 4) == error_kind::invalid_argument);
  for (std::size_t cell_bytes : {std::size_t{0}, std::size_t{127}, area + 1, all, all - 63})
    CHECK(kind_of(64, cell_bytes, 4) == error_kind::invalid_argument);
  CHECK(kind_of(0, 128, 52) == error_kind::invalid_argument);
  for (std::size_t tensor_bytes : {area, all - 3, all / 2 + 1, all - 63})
    CHECK(kind_of(0, area, tensor_bytes) == error_kind::invalid_argument);
}

TEST_CASE("the fast path refuses operations that it does not support") {
  host local_host(2);
  const auto kind_of = [&](fast_path_task task) {
    const auto opened = local_host.fast_paths[0]->open(1, 0, area, task);
    return opened ? error_kind::none : opened.error().kind;
  };
  fast_path_task task = floats(1);
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

TEST_CASE(
    "processes complete rounds on the fast path, and the survivor of a dead process can retract its round") {
  const auto layout = fast_path_layout(2);
  auto made = shm_segment::create(layout);
  const int shared = (*made)->shared_descriptor();
  fast_path_task task = floats(100);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    auto adopted = shm_segment::adopt(descriptor(dup(shared)), layout);
    if (!adopted)
      _exit(2);
    shm_fast_path theirs(std::move(*adopted), 1, long_wait);
    const auto cell = theirs.open(1, 0, shm_fast_path::footprint(task.bytes), task);
    bytes tensor = filled(100, 2);
    for (std::uint64_t round = 0; round < 5; ++round)
      if (exchange(theirs, *cell, round, tensor.data(), tensor.data()))
        _exit(3);
    _exit(7);
  }
  shm_fast_path own(std::move(*made), 0, long_wait);
  const auto cell = own.open(1, 0, shm_fast_path::footprint(task.bytes), task);
  bytes tensor = filled(100, 1);
  for (std::uint64_t round = 0; round < 5; ++round)
    REQUIRE_FALSE(exchange(own, *cell, round, tensor.data(), tensor.data()));
  CHECK(tensor == filled(100, 48)); // 1 + 2, doubled four times
  own.publish(*cell, 5, tensor.data());
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 7);
  std::atomic<std::uint32_t> event_word{1};
  CHECK(own.wait(*cell, 5, event_word, 0, far()) == wait_end::noticed);
  CHECK(own.retract(*cell, 5));
}
