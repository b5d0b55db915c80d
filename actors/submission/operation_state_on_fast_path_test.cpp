#include <cstring>
#include <new>

#include "actors/submission/operation_state_testing.hpp"
#include "actors/submission/submission_queue.hpp"
#include "collectives/transport/shm/interleavings_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

const error over{error_kind::disconnected, "the generation is over"};

} // namespace

TEST_CASE("callers run every collective on the fast path, round after round", "[operation_state]") {
  for (const auto& shape : all_collectives()) {
    INFO(row_of(shape.kind).name << " of " << shape.floats << ", result heap " << shape.heap_bytes);
    pair_of_members both(shape);
    for (std::uint64_t round = 0; round < 20; ++round) {
      const auto first = static_cast<std::uint32_t>(round % 2);
      both.publish(first, round);
      CHECK_FALSE(both.operations[first]->try_settle());
      both.publish(1 - first, round);
      both.play();
      for (std::uint32_t rank = 0; rank < 2; ++rank) {
        REQUIRE(both.operations[rank]->settled());
        REQUIRE(both.operations[rank]->problem.text == "");
        REQUIRE(both.result(rank) == both.wanted(rank));
      }
      both.operations[0]->drop_handle();
      both.operations[1]->drop_handle();
    }
  }
}

TEST_CASE("only a caller advances a collective on the fast path", "[operation_state]") {
  pair_of_members both({operation::allreduce, 50}); // each member reduces a share
  both.publish(0);
  CHECK_FALSE(both.operations[0]->can_move());
  both.publish(1);
  CHECK(both.operations[0]->can_move());
  CHECK_FALSE(both.operations[0]->try_settle(operation_state::runner::nobody));
  CHECK(both.operations[0]->now() == phase::on_fast_path);
  CHECK_FALSE(both.operations[0]->try_settle());
  CHECK_FALSE(both.operations[0]->can_move());
  REQUIRE(both.operations[0]->awaited());
  CHECK(both.operations[0]->awaited()->kind == round_need::event::reduced);
  CHECK(both.operations[0]->awaited()->member == 1);
  CHECK(both.operations[1]->try_settle());
  CHECK(both.operations[0]->can_move());
  CHECK(both.operations[0]->try_settle());
}

TEST_CASE("an operation whose bytes are being moved cannot be ended by another thread", "[operation_state]") {
  pair_of_members both({operation::allreduce, 5});
  both.publish(0);
  both.publish(1);
  REQUIRE(both.operations[0]->advance(phase::on_fast_path, phase::moving));
  CHECK_FALSE(both.operations[0]->end_on_fast_path(over));
  CHECK(both.operations[0]->leave_fast_path() == operation_state::leaving::busy);
  CHECK_FALSE(both.operations[0]->settled());
  REQUIRE(both.operations[0]->advance(phase::moving, phase::on_fast_path));
  CHECK(both.operations[0]->end_on_fast_path(over));
  CHECK(both.operations[0]->problem.text == over.text);
}

TEST_CASE("if one member leaves the fast path, the waiting member leaves it too, or both succeed",
          "[operation_state]") {
  auto shapes = all_collectives();
  shapes.push_back({operation::allreduce, 1, true});
  const auto shape = GENERATE_COPY(from_range(shapes));
  const std::size_t looks = GENERATE(0u, 1u, 3u);
  std::size_t completed = 0;
  const auto count = for_each_interleaving(3, 1 + looks, [&](const std::vector<std::size_t>& order) {
    pair_of_members both(shape);
    auto left = operation_state::leaving::busy;
    std::size_t steps[2] = {};
    for (const auto member : order) {
      const auto step = steps[member]++;
      if (step == 0)
        both.publish(static_cast<std::uint32_t>(member));
      else if (member == 1 || step == 1)
        both.operations[member]->try_settle();
      else
        left = both.operations[0]->leave_fast_path();
    }
    REQUIRE(left != operation_state::leaving::busy);
    // The leader tells the other member of a round that was left.
    if (left == operation_state::leaving::left) {
      REQUIRE((both.operations[1]->leave_fast_path() == left));
      for (std::uint32_t rank = 0; rank < 2; ++rank) {
        REQUIRE(both.operations[rank]->now() == phase::queued);
        // The leader moves the callers' inputs, which must be unchanged.
        REQUIRE(both.tensors[rank].front() == static_cast<float>(10 * rank));
        REQUIRE(both.tensors[rank].back() == static_cast<float>(10 * rank + 1));
      }
      return;
    }
    ++completed;
    both.play();
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      REQUIRE(both.operations[rank]->settled());
      REQUIRE_FALSE(both.operations[rank]->problem);
      REQUIRE(both.result(rank) == both.wanted(rank));
    }
  });
  CHECK(completed < count);
  CHECK((!shape.in_cells || completed > 0));
}

TEST_CASE("the staging memory of a round that was left is free again", "[operation_state]") {
  pair_of_members both({operation::allreduce, 1000, false, 0, std::size_t{16} << 10});
  for (std::uint64_t round = 0; round < 30; ++round) {
    both.publish(0, round);
    REQUIRE((both.operations[0]->leave_fast_path() == operation_state::leaving::left));
  }
}

TEST_CASE("a member without staging memory for a tensor does not enter the round", "[operation_state]") {
  pair_of_members both({operation::allreduce, 1000, false, 0, std::size_t{16} << 10});
  auto& heap = both.slots[0]->fast_path().heap();
  const auto all = heap.take(std::size_t{16} << 10);
  REQUIRE(all);
  both.begin(0);
  CHECK_FALSE(both.try_publish(0, 0));
  CHECK(both.operations[0]->now() == phase::queued);
  CHECK_FALSE(both.slots[1]->fast_path().ready(both.slots[1]->cell(), 0));
  heap.give_back(*all);
  CHECK(both.try_publish(0, 0));
}

// ---- rows that members write into each other's results ---------------------------------------------

namespace {

constexpr std::int64_t row = 64 << 10; // floats
constexpr std::size_t row_bytes = row * sizeof(float);
constexpr std::size_t heap_bytes = std::size_t{32} << 20;

pair_of_members writers() {
  return pair_of_members({operation::alltoall, row, false, heap_bytes, std::size_t{1} << 20});
}

} // namespace

TEST_CASE("results lie where the other members wrote them, in the same memory in every round",
          "[operation_state]") {
  auto both = writers();
  const std::byte* first = nullptr;
  for (std::uint64_t round = 0; round < 3; ++round) {
    both.publish(0, round);
    both.publish(1, round);
    both.play();
    REQUIRE(both.operations[0]->settled());
    CHECK(both.result(0) == both.wanted(0));
    const auto* block = both.operations[0]->owned.get();
    CHECK(both.heaps[0]->own->offset_of(block) < heap_bytes);
    CHECK(block == (first ? first : block));
    first = block;
    both.operations[0]->drop_handle();
    both.operations[1]->drop_handle();
  }
}

TEST_CASE("if one member has no room in its result heap, all rows go through the slots",
          "[operation_state]") {
  auto both = writers();
  const auto full = both.heaps[1]->own->take(heap_bytes);
  REQUIRE(full);
  both.publish(0);
  both.publish(1);
  both.play();
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    REQUIRE(both.operations[rank]->settled());
    CHECK(both.operations[rank]->problem.text == "");
    CHECK(both.result(rank) == both.wanted(rank));
  }
}

TEST_CASE("a result larger than its block lies outside the result heap, and the next block is large enough",
          "[operation_state]") {
  auto both = writers();
  const std::byte* places[2];
  for (std::uint64_t round = 0; round < 2; ++round) {
    both.publish(0, round);
    both.begin(1);
    both.operations[1]->splits = {2, 0}; // all to rank 0
    REQUIRE(both.try_publish(1, round));
    both.play();
    REQUIRE(both.operations[0]->settled());
    CHECK_FALSE(both.operations[0]->problem);
    CHECK(both.operations[0]->outcome.bytes.size() == 3 * row_bytes);
    CHECK(both.operations[0]->outcome.first_dims == std::vector<std::int64_t>{1, 2});
    CHECK(both.result(0).back() == 11);
    places[round] = both.operations[0]->owned.get();
    both.operations[0]->drop_handle();
    both.operations[1]->drop_handle();
  }
  CHECK(both.heaps[0]->own->offset_of(places[0]) >= heap_bytes); // not in the result heap
  CHECK(both.heaps[0]->own->offset_of(places[1]) < heap_bytes);
}

TEST_CASE("a block that another member may still write to is not reused", "[operation_state]") {
  auto both = writers();
  const bool looked = GENERATE(false, true);
  both.publish(0);
  both.publish(1);
  if (looked)
    CHECK_FALSE(both.operations[0]->try_settle());
  CHECK(both.operations[0]->end_on_fast_path(over));
  CHECK(both.operations[0]->problem.text == over.text);
  both.operations[0]->drop_handle();
  CHECK(both.slots[0]->results().kept() == 0);
  // The other member finds out only after it has written.
  CHECK_FALSE(both.operations[1]->try_settle());
  CHECK(both.operations[1]->now() == (looked ? phase::stranded : phase::on_fast_path));
  CHECK(both.operations[1]->end_on_fast_path(over));
  CHECK(both.operations[1]->problem.text == over.text);
}

namespace {

/// Both have published, and rank 1 a block that rank 0 cannot write to.
void publish_invalid_block(pair_of_members& both) {
  both.publish(0);
  both.publish(1);
  constexpr std::size_t header = 40; // of a half cell; the row descriptor follows
  const std::vector<std::int64_t> rows = {1, 1};
  const row_descriptor forged(0, {heap_bytes - 1, 4 * row_bytes}, rows, 2);
  write_checked(both.segments[1]->fast_path(1).data() + header, forged.words(), {1, 1, 0});
}

} // namespace

TEST_CASE("an operation that fails on one member ends with its set, which ends for that reason",
          "[operation_state]") {
  auto both = writers();
  publish_invalid_block(both);
  auto& operation = *both.operations[0];
  bool has_memory = true;
  const auto queue = std::make_shared<submission_queue>(0, 2, 64, [&] {
    CHECK_FALSE(operation.end_on_fast_path(over)); // nor can another thread end it while it is reported
    if (!has_memory)
      throw std::bad_alloc();
  });
  operation.queue = queue;
  SECTION("that goes on") {
    CHECK_FALSE(operation.try_settle());
    CHECK(operation.now() == phase::stranded);
    const auto told = queue->take_queue();
    REQUIRE(told.size() == 1);
    CHECK_THAT(std::get<round_broken>(told[0]).reason.text, Catch::StartsWith("t: local member 1"));
    CHECK(operation.end_on_fast_path(over));
    CHECK(operation.problem.text == over.text);
  }
  SECTION("that is told later, for lack of memory") {
    has_memory = false;
    CHECK_FALSE(operation.try_settle());
    CHECK(operation.can_move());
    has_memory = true;
    CHECK_FALSE(operation.try_settle());
    CHECK(operation.now() == phase::stranded);
    const auto told = queue->take_queue();
    REQUIRE(told.size() == 2);
    CHECK(std::get<round_broken>(told[0]).reason == std::get<round_broken>(told[1]).reason);
  }
  SECTION("that is ending, although the other member has succeeded") {
    auto& fast_path = operation.taken_slot->fast_path();
    fast_path.begin_output(operation.taken_slot->cell(), 0);
    fast_path.complete(operation.taken_slot->cell(), 0);
    CHECK(operation.end_on_fast_path(over));
    CHECK_THAT(operation.problem.text, Catch::StartsWith("t: local member 1"));
    CHECK(queue->take_queue().empty());
  }
  SECTION("that cannot be told any more") {
    queue->close();
    CHECK(operation.try_settle());
    CHECK_THAT(operation.problem.text, Catch::StartsWith("t: local member 1"));
    CHECK(queue->take_queue().empty());
  }
}

TEST_CASE("an operation whose cell was overwritten ends with its set, but not while a thread moves its bytes",
          "[operation_state]") {
  pair_of_members both({operation::allreduce, 5});
  both.publish(0);
  auto& operation = *both.operations[0];
  const auto queue = std::make_shared<submission_queue>(0, 2, 64, [] {});
  operation.queue = queue;
  std::memset(both.segments[0]->fast_path(0).data(), 1, sizeof(std::uint64_t));
  REQUIRE(operation.advance(phase::on_fast_path, phase::moving));
  CHECK_FALSE(operation.try_settle());
  CHECK(queue->take_queue().empty());
  REQUIRE(operation.advance(phase::moving, phase::on_fast_path));
  CHECK_FALSE(operation.try_settle());
  CHECK(operation.now() == phase::stranded);
  CHECK(queue->take_queue().size() == 1);
}

TEST_CASE("an operation that fails in a round that another member has left does not end its set",
          "[operation_state]") {
  pair_of_members both({operation::allreduce, 50}); // each member reduces a share
  both.publish(0);
  both.publish(1);
  auto& operation = *both.operations[0];
  const auto queue = std::make_shared<submission_queue>(0, 2, 64, [] {});
  operation.queue = queue;
  CHECK_FALSE(operation.try_settle());
  REQUIRE((both.operations[1]->leave_fast_path() == operation_state::leaving::left));
  const auto& slot = *both.slots[0];
  slot.fast_path().progress(slot.cell(), 1).reduced.value.store(1); // without its proof
  CHECK_FALSE(operation.try_settle());
  CHECK(operation.now() == phase::stranded);
  CHECK(queue->take_queue().empty());
  CHECK((operation.leave_fast_path() == operation_state::leaving::left));
}

TEST_CASE("an invalid block fails the member that would write there, and the round for all members",
          "[operation_state]") {
  auto both = writers();
  publish_invalid_block(both);
  CHECK(both.operations[0]->try_settle());
  CHECK_FALSE(both.operations[0]->problem.text.empty());
  CHECK_FALSE(both.operations[1]->try_settle());
  CHECK(both.operations[1]->end_on_fast_path(over));
  CHECK(both.operations[1]->problem.text == over.text);
}
