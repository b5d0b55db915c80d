#include "actors/submission/submission_queue.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

/// A member's door whose other side is the test: what comes out of it, and what ids it learns.
struct queue_of_member {
  std::shared_ptr<farandole::submission_queue> queue =
      std::make_shared<farandole::submission_queue>(0, 1, 64, [] {});
  std::vector<float> tensor = {1, 2, 3};

  operation_state_ptr submit(completion_mode completion, std::int64_t elements = 3) {
    submission request;
    request.name = "t";
    request.signature.shape = {elements};
    request.input = reinterpret_cast<const std::byte*>(tensor.data());
    request.output = reinterpret_cast<std::byte*>(tensor.data());
    request.completion = completion;
    auto operation = queue->submit(request);
    REQUIRE(operation);
    return *operation;
  }

  /// Submits, and settles what comes out as the lane would; null when it went by the fast path.
  operation_state_ptr moved(completion_mode completion) {
    auto operation = submit(completion);
    const auto queued = queue->take_queue();
    if (queued.empty())
      return {};
    REQUIRE(queued.size() == 1);
    REQUIRE(std::get<operation_state_ptr>(queued[0]).get() == operation.get());
    REQUIRE(operation->claim_and_settle(phase::queued, {}));
    return operation;
  }

  operation_state_ptr join() const {
    submission request;
    request.name = "join";
    request.signature.operation = operation::join;
    auto operation = queue->submit(request);
    REQUIRE(operation);
    return *operation;
  }

  /// A place on the fast path of a host with so many members, of which this one is the first.
  std::shared_ptr<fast_path_slot> slot(std::uint32_t id, std::uint32_t members = 1) const {
    segment_layout layout;
    layout.members = members;
    layout.fast_path_bytes = 4096;
    layout.chunk_bytes = 4096;
    auto shared = shm_segment::create(layout);
    REQUIRE(shared);
    const futex_wait policy(futex_wait::look::giving_way, std::chrono::microseconds(5), yield_policy(true));
    auto fast_path = std::make_shared<farandole::shm_fast_path>(std::move(*shared), 0, policy);
    fast_path_task task;
    task.bytes = tensor.size() * sizeof(float);
    auto cell = fast_path->open(id, 0, farandole::shm_fast_path::footprint(task.bytes), task);
    REQUIRE(cell);
    return std::make_shared<fast_path_slot>(std::move(fast_path), *cell);
  }
};

} // namespace

TEST_CASE("what is left to a callback asks for no seat, in full and by its id", "[door]") {
  queue_of_member entry;
  const auto first = entry.moved(completion_mode::callback);
  REQUIRE(first);
  CHECK(first->id == 0);
  CHECK(first->no_fast_path);
  entry.queue->learn(1, *first, nullptr);
  const auto second = entry.moved(completion_mode::callback);
  REQUIRE(second);
  CHECK(second->id == 1);
  CHECK(second->no_fast_path); // whoever asks what is meant by the id hears it
  CHECK(second->left.empty());
}

TEST_CASE("what is left to a callback leaves the seat that its name has", "[door]") {
  queue_of_member entry;
  const auto source = GENERATE(completion_mode::any, completion_mode::wait);
  const auto first = entry.moved(source);
  REQUIRE(first);
  CHECK_FALSE(first->no_fast_path);
  entry.queue->learn(1, *first, entry.slot(1));
  for (int round = 0; round < 3; ++round)
    CHECK_FALSE(entry.moved(source));
  CHECK(entry.queue->on_fast_path() == 3);

  const auto leaving = entry.moved(completion_mode::callback);
  REQUIRE(leaving);
  CHECK(leaving->id == 0);
  CHECK(leaving->no_fast_path);
  CHECK(leaving->left == std::vector<fast_path_round>{{1, 3}});

  // Who waits again is not kept from the fast path by this member.
  entry.queue->learn(2, *leaving, nullptr);
  const auto last = entry.moved(source);
  REQUIRE(last);
  CHECK(last->id == 2);
  CHECK_FALSE(last->no_fast_path);
  CHECK(last->left.empty());
}

TEST_CASE("rows have a seat for who waits for them at once, and for nobody else", "[door]") {
  queue_of_member entry;
  const auto asked = [&](operation op, completion_mode completion) {
    submission rows;
    rows.name = op == operation::alltoall ? "a" : "g";
    rows.signature.operation = op;
    rows.signature.shape = {3};
    rows.input = reinterpret_cast<const std::byte*>(entry.tensor.data());
    rows.completion = completion;
    auto operation = entry.queue->submit(rows);
    REQUIRE(operation);
    const auto no_fast_path = (*operation)->no_fast_path;
    entry.queue->take_queue();
    REQUIRE((*operation)->claim_and_settle(phase::queued, {}));
    return !no_fast_path;
  };
  for (const auto op : {operation::alltoall, operation::allgather}) {
    CHECK(asked(op, completion_mode::wait));
    CHECK_FALSE(asked(op, completion_mode::any));
    CHECK_FALSE(asked(op, completion_mode::callback));
  }
}

TEST_CASE("who joins takes an open round with it to the leader, ahead of the join", "[door]") {
  queue_of_member entry;
  const auto first = entry.moved(completion_mode::any);
  REQUIRE(first);
  entry.queue->learn(1, *first, entry.slot(1, 2));
  const auto open = entry.submit(completion_mode::any);
  CHECK(entry.queue->take_queue().empty());
  REQUIRE(open->now() == phase::on_fast_path);

  const auto join = entry.join();
  const auto queued = entry.queue->take_queue();
  REQUIRE(queued.size() == 2);
  CHECK(std::get<operation_state_ptr>(queued[0]).get() == open.get());
  CHECK(open->now() == phase::queued);
  CHECK(open->id == 0);
  CHECK(open->left == std::vector<fast_path_round>{{1, 0}});
  CHECK(std::get<operation_state_ptr>(queued[1]).get() == join.get());
  CHECK(join->left.empty());
}

TEST_CASE("who joins leaves the next round where the last is complete", "[door]") {
  queue_of_member entry;
  const auto first = entry.moved(completion_mode::any);
  REQUIRE(first);
  entry.queue->learn(1, *first, entry.slot(1));
  const auto complete = entry.submit(completion_mode::any);
  const auto join = entry.join();
  CHECK(complete->settled());
  CHECK_FALSE(complete->problem);
  REQUIRE(entry.queue->take_queue().size() == 1);
  CHECK(join->left == std::vector<fast_path_round>{{1, 1}});
}
