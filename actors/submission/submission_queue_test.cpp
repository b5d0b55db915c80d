#include "actors/submission/submission_queue.hpp"

#include <catch2/catch.hpp>

#include <future>
#include <thread>

#include "messages/record/event_reader.hpp"
#include "tests/patience.hpp"

using namespace farandole;

namespace {

/// The submission queue of a member; the test takes the operations out of it and assigns ids.
struct queue_of_member {
  std::shared_ptr<event_recorder> recorder = std::make_shared<event_recorder>(*event_region::anonymous(64));
  std::shared_ptr<farandole::submission_queue> queue = std::make_shared<farandole::submission_queue>(
      0, 1, 64, [] {}, std::vector<std::int32_t>{}, set_epoch{}, std::size_t{64} << 10, recorder);
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

  /// Submits an operation and settles it as the lane would. Returns null if the operation used the fast path.
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

  /// Moves the tensor once through the leader, who gives it the id 1 and a fast-path slot.
  void move_to_fast_path(completion_mode completion, std::uint32_t members = 1) {
    const auto first = moved(completion);
    REQUIRE(first);
    queue->learn(1, *first, slot(1, members));
  }

  operation_state_ptr join() const {
    submission request;
    request.name = "join";
    request.signature.operation = operation::join;
    auto operation = queue->submit(request);
    REQUIRE(operation);
    return *operation;
  }

  /// The events of the only thread that has recorded any.
  std::vector<event> events() const {
    const auto record = read_event_record(recorder->region()->bytes());
    REQUIRE(record);
    REQUIRE(record->threads.size() == 1);
    return record->threads[0].events;
  }
  std::vector<event_kind> recorded() const {
    std::vector<event_kind> kinds;
    for (const auto& entry : events())
      kinds.push_back(entry.kind);
    return kinds;
  }

  /// A fast-path slot on a host with `members` members, of which this member is the first.
  std::shared_ptr<fast_path_slot> slot(std::uint32_t id, std::uint32_t members = 1) const {
    segment_layout layout;
    layout.members = members;
    layout.fast_path_bytes = 4096;
    layout.chunk_bytes = 4096;
    auto shared = shm_segment::create(layout);
    REQUIRE(shared);
    const futex_wait policy(futex_wait::polling::yielding, std::chrono::microseconds(5), yield_policy(true));
    auto fast_path = std::make_shared<farandole::shm_fast_path>(std::move(*shared), 0, policy);
    fast_path_task task;
    task.bytes = tensor.size() * sizeof(float);
    auto cell = fast_path->open(id, 0, farandole::shm_fast_path::footprint(task.bytes), task);
    REQUIRE(cell);
    return std::make_shared<fast_path_slot>(std::move(fast_path), *cell);
  }
};

} // namespace

TEST_CASE("an operation with a callback requests no fast-path slot, by name or by id", "[submission_queue]") {
  queue_of_member member;
  const auto first = member.moved(completion_mode::callback);
  REQUIRE(first);
  CHECK(first->id == 0);
  CHECK(first->no_fast_path);
  member.queue->learn(1, *first, nullptr);
  const auto second = member.moved(completion_mode::callback);
  REQUIRE(second);
  CHECK(second->id == 1);
  CHECK(
      second->no_fast_path); // a full request carries this flag if the leader asks for the meaning of the id
  CHECK(second->left.empty());
}

TEST_CASE("an operation with a callback leaves the fast-path slot of its name", "[submission_queue]") {
  queue_of_member member;
  const auto source = GENERATE(completion_mode::any, completion_mode::wait);
  const auto first = member.moved(source);
  REQUIRE(first);
  CHECK_FALSE(first->no_fast_path);
  member.queue->learn(1, *first, member.slot(1));
  for (int round = 0; round < 3; ++round)
    CHECK_FALSE(member.moved(source));
  CHECK(member.queue->on_fast_path() == 3);

  const auto leaving = member.moved(completion_mode::callback);
  REQUIRE(leaving);
  CHECK(leaving->id == 0);
  CHECK(leaving->no_fast_path);
  CHECK(leaving->left == std::vector<fast_path_round>{{1, 3}});

  // A later call that waits again is not kept off the fast path by this member.
  member.queue->learn(2, *leaving, nullptr);
  const auto last = member.moved(source);
  REQUIRE(last);
  CHECK(last->id == 2);
  CHECK_FALSE(last->no_fast_path);
  CHECK(last->left.empty());
}

TEST_CASE("an operation without a contribution uses no id, and leaves the fast-path slot of its name",
          "[submission_queue]") {
  queue_of_member member;
  const auto first = member.moved(completion_mode::any);
  REQUIRE(first);
  member.queue->learn(1, *first, member.slot(1));
  CHECK_FALSE(member.moved(completion_mode::any));

  submission absent;
  absent.name = first->name;
  absent.signature = first->signature;
  absent.input = first->input;
  absent.output = first->output;
  absent.absent = true;
  const auto leaving = member.queue->submit(absent);
  REQUIRE(leaving);
  CHECK((*leaving)->id == 0);
  CHECK((*leaving)->absent);
  CHECK((*leaving)->left == std::vector<fast_path_round>{{1, 1}});
}

TEST_CASE("an alltoall or allgather gets a fast-path slot only if the caller waits for it at once",
          "[submission_queue]") {
  queue_of_member member;
  const auto asked = [&](operation op, completion_mode completion) {
    submission rows;
    rows.name = op == operation::alltoall ? "a" : "g";
    rows.signature.operation = op;
    rows.signature.shape = {3};
    rows.input = reinterpret_cast<const std::byte*>(member.tensor.data());
    rows.completion = completion;
    auto operation = member.queue->submit(rows);
    REQUIRE(operation);
    const auto no_fast_path = (*operation)->no_fast_path;
    member.queue->take_queue();
    REQUIRE((*operation)->claim_and_settle(phase::queued, {}));
    return !no_fast_path;
  };
  for (const auto op : {operation::alltoall, operation::allgather}) {
    CHECK(asked(op, completion_mode::wait));
    CHECK_FALSE(asked(op, completion_mode::any));
    CHECK_FALSE(asked(op, completion_mode::callback));
  }
}

TEST_CASE("a member that joins sends its open round to the leader before the join", "[submission_queue]") {
  queue_of_member member;
  member.move_to_fast_path(completion_mode::any, 2);
  const auto open = member.submit(completion_mode::any);
  CHECK(member.queue->take_queue().empty());
  REQUIRE(open->now() == phase::on_fast_path);

  const auto join = member.join();
  const auto queued = member.queue->take_queue();
  REQUIRE(queued.size() == 2);
  CHECK(std::get<operation_state_ptr>(queued[0]).get() == open.get());
  CHECK(open->now() == phase::queued);
  CHECK(open->id == 0);
  CHECK(open->left == std::vector<fast_path_round>{{1, 0}});
  CHECK(std::get<operation_state_ptr>(queued[1]).get() == join.get());
  CHECK(join->left.empty());
}

TEST_CASE("a member that joins after a complete round leaves the next round", "[submission_queue]") {
  queue_of_member member;
  member.move_to_fast_path(completion_mode::any);
  const auto complete = member.submit(completion_mode::any);
  const auto join = member.join();
  CHECK(complete->try_settle(operation_state::runner::nobody));
  CHECK_FALSE(complete->problem);
  REQUIRE(member.queue->take_queue().size() == 1);
  CHECK(join->left == std::vector<fast_path_round>{{1, 1}});
}

TEST_CASE("an operation that waits on the fast path leaves it to be withdrawn", "[submission_queue]") {
  queue_of_member member;
  member.move_to_fast_path(completion_mode::any, 2);
  const auto open = member.submit(completion_mode::any);
  REQUIRE(open->now() == phase::on_fast_path);

  member.queue->withdraw(*open);
  const auto queued = member.queue->take_queue();
  REQUIRE(queued.size() == 2);
  CHECK(std::get<operation_state_ptr>(queued[0]).get() == open.get());
  CHECK(open->now() == phase::queued);
  CHECK(open->left == std::vector<fast_path_round>{{1, 0}});
  CHECK(std::get<withdrawal_request>(queued[1]).name == "t");
}

TEST_CASE("an operation that is withdrawn while a thread moves its bytes leaves the fast path afterwards",
          "[submission_queue]") {
  queue_of_member member;
  member.move_to_fast_path(completion_mode::any, 2);
  const auto open = member.submit(completion_mode::any);
  REQUIRE(open->advance(phase::on_fast_path, phase::moving));
  std::promise<void> begun;
  std::thread caller([&] {
    begun.set_value();
    member.queue->withdraw(*open);
  });
  begun.get_future().wait();
  std::this_thread::yield();
  CHECK(open->advance(phase::moving, phase::on_fast_path));
  caller.join();
  CHECK(open->now() == phase::queued);
  CHECK(member.queue->take_queue().size() == 2);
}

TEST_CASE("an operation that is complete on the fast path is not withdrawn", "[submission_queue]") {
  queue_of_member member;
  member.move_to_fast_path(completion_mode::any);
  const auto complete = member.submit(completion_mode::any);
  member.queue->withdraw(*complete);
  CHECK(complete->settled());
  CHECK_FALSE(complete->problem);
  CHECK(member.queue->take_queue().empty());
}

TEST_CASE("a callback may submit while names of operations in flight are asked for", "[submission_queue]") {
  queue_of_member member;
  member.move_to_fast_path(completion_mode::any);
  const auto complete = member.submit(completion_mode::any);
  operation_state_ptr following;
  complete->on_settled([&] { following = member.submit(completion_mode::callback); });
  REQUIRE_FALSE(following);
  std::vector<std::string> names;
  CHECK(member.queue->pending_names(names) == submission_queue::attempt::done);
  CHECK(following);
  CHECK(names == std::vector<std::string>{"t"});
}

TEST_CASE("an operation that is complete counts as no pending one while its caller moves the last bytes",
          "[submission_queue]") {
  queue_of_member member;
  member.move_to_fast_path(completion_mode::any, 2);
  const auto moved = member.submit(completion_mode::any);
  REQUIRE(moved->advance(phase::on_fast_path, phase::moving));
  const auto pending = [&] {
    std::vector<std::string> names;
    CHECK(member.queue->pending_names(names) == submission_queue::attempt::done);
    return names;
  };
  CHECK(pending() == std::vector<std::string>{"t"});
  moved->taken_slot->fast_path().complete(moved->taken_slot->cell(), 0); // by the other member
  CHECK(pending().empty());
}

TEST_CASE("an operation that is being withdrawn can be reported as failed by the thread that moves it",
          "[submission_queue]") {
  queue_of_member member;
  member.move_to_fast_path(completion_mode::any, 2);
  const auto moved = member.submit(completion_mode::any);
  REQUIRE(moved->advance(phase::on_fast_path, phase::moving));
  std::thread caller([&] { member.queue->withdraw(*moved); });
  // The caller waits for this thread, with the lock.
  const auto deadline = std::chrono::steady_clock::now() + testing::patience;
  bool locked = false;
  while (!locked && std::chrono::steady_clock::now() < deadline) {
    std::vector<std::string> names;
    locked = member.queue->pending_names(names) == submission_queue::attempt::busy;
    std::this_thread::yield();
  }
  CHECK(locked);
  CHECK(member.queue->report_broken({error_kind::unknown, "t: no memory"}));
  CHECK(moved->advance(phase::moving, phase::stranded));
  caller.join();
  CHECK(moved->now() == phase::queued);
  CHECK(std::holds_alternative<round_broken>(member.queue->take_queue().front()));
}

TEST_CASE("a callback may call the queue while the name of its operation is submitted again",
          "[submission_queue]") {
  queue_of_member member;
  member.move_to_fast_path(completion_mode::any);
  const auto complete = member.submit(completion_mode::any);
  bool called = false;
  complete->on_settled([&] { called = member.queue->failures("t") == 0; });
  REQUIRE_FALSE(called);
  const auto next = member.submit(completion_mode::any);
  CHECK(called);
  CHECK(next->now() == phase::on_fast_path);
}

TEST_CASE("no callback runs while operations are taken off the fast path", "[submission_queue]") {
  queue_of_member member;
  member.move_to_fast_path(completion_mode::any);
  const auto complete = member.submit(completion_mode::any);
  REQUIRE(complete->now() == phase::on_fast_path);
  bool called = false;
  complete->on_settled([&] { called = true; });
  SECTION("because the leader retracts the round") {
    operation_state_ptr taken;
    CHECK(member.queue->retract({1, complete->round}, taken) == submission_queue::attempt::done);
    CHECK_FALSE(taken);
  }
  SECTION("because the member joins") {
    member.join();
  }
  CHECK_FALSE(called);
  CHECK(complete->try_settle(operation_state::runner::nobody));
  CHECK(called);
}

TEST_CASE("an operation that is withdrawn from the fast path after the end fails", "[submission_queue]") {
  queue_of_member member;
  member.move_to_fast_path(completion_mode::any, 2);
  const auto open = member.submit(completion_mode::any);
  member.queue->close();
  member.queue->withdraw(*open);
  CHECK(member.queue->take_queue().empty());
  REQUIRE(open->settled());
  CHECK(open->problem.kind == error_kind::shut_down);
}

TEST_CASE("after the end, the error of a submission names its tensor, and the first one is recorded",
          "[submission_queue]") {
  queue_of_member member;
  error reason{error_kind::shut_down, "rank 1 on alpha ended its script after 2 operations"};
  reason.consequence = true;
  REQUIRE(member.queue->end(reason) == submission_queue::attempt::done);
  submission request;
  request.name = "late";
  request.signature.shape = {3};
  request.input = reinterpret_cast<const std::byte*>(member.tensor.data());
  request.output = reinterpret_cast<std::byte*>(member.tensor.data());
  for (int call = 0; call < 2; ++call) {
    const auto refused = member.queue->submit(request);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().kind == error_kind::shut_down);
    CHECK(refused.error().text == "late: rank 1 on alpha ended its script after 2 operations");
    CHECK(refused.error().consequence);
  }
  const auto record = read_event_record(member.recorder->region()->bytes());
  REQUIRE(record);
  REQUIRE(record->threads.size() == 1);
  REQUIRE(record->threads[0].events.size() == 1);
  const auto& entry = record->threads[0].events[0];
  CHECK(entry.kind == event_kind::settled);
  CHECK(entry.detail == static_cast<std::uint8_t>(error_kind::shut_down));
  CHECK(record->name(entry.name) == "late");
}

TEST_CASE("failures are counted by name", "[submission_queue]") {
  const queue_of_member member;
  CHECK(member.queue->failures("t") == 0);
  member.queue->count_failure("t");
  member.queue->count_failure("u");
  member.queue->count_failure("t");
  CHECK(member.queue->failures("t") == 2);
  CHECK(member.queue->failures("u") == 1);
  CHECK(member.queue->failures("v") == 0);
}

TEST_CASE("the record has each step of an operation through the leader", "[submission_queue]") {
  queue_of_member member;
  REQUIRE(member.moved(completion_mode::wait));
  CHECK(member.recorded() == std::vector{event_kind::submitted, event_kind::settled});
  const auto events = member.events();
  CHECK(member.recorder->region()->names().at(events[0].name) == "t");
  CHECK(events[0].first == 3 * sizeof(float));
  CHECK(events[1].first == 0);
}

TEST_CASE("the record has each step of an operation on the fast path, and in detail the cells",
          "[submission_queue]") {
  queue_of_member member;
  const bool detailed = GENERATE(false, true);
  if (detailed)
    member.recorder->detailed(true);
  member.move_to_fast_path(completion_mode::wait);
  const auto before = member.recorder->clock().now();
  REQUIRE(member.submit(completion_mode::wait)->try_settle());
  auto expected = std::vector{event_kind::submitted, event_kind::settled, event_kind::published};
  if (detailed)
    expected.push_back(event_kind::cell_published);
  expected.push_back(event_kind::settled);
  CHECK(member.recorded() == expected);
  const auto events = member.events();
  CHECK(events[2].second == 0);    // the round
  CHECK(events.back().first == 1); // one more than the round
  if (detailed) {
    CHECK(events[3].first >= before);
    CHECK(events[3].first <= events[3].ticks);
  }
}

TEST_CASE("a submission queue without recorder works", "[submission_queue]") {
  farandole::submission_queue queue(0, 1, 64, [] {});
  submission request;
  request.name = "t";
  request.signature.shape = {0};
  REQUIRE(queue.submit(request));
}
