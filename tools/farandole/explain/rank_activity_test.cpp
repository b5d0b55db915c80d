#include "tools/farandole/explain/rank_activity.hpp"

#include <catch2/catch.hpp>

#include <climits>

#include "tools/farandole/explain/explain_testing.hpp"

using namespace farandole;
using namespace std::chrono_literals;

TEST_CASE("a call that has not completed is pending, and its caller waits", "[explain]") {
  const auto activity =
      made_record(1, 2).complete(10, "a").complete(20, "a").call(30, "a", 64).wait(31, "a").activity();
  CHECK(activity.rank == 1);
  CHECK(activity.size == 2);
  CHECK(activity.host == "alpha");
  CHECK(activity.started);
  const auto* calls = activity.calls_of({0, "a"});
  REQUIRE(calls);
  CHECK(calls->count == 3);
  CHECK(calls->pending);
  CHECK(calls->since == at_ms(30));
  CHECK(calls->bytes == 64);
  CHECK(activity.has_pending({0, "a"}));
  CHECK_FALSE(activity.has_pending({1, "a"}));
  CHECK(activity.waits == std::map<tensor_key, record_time>{{{0, "a"}, at_ms(31)}});
  CHECK_FALSE(activity.failure);
  CHECK(activity.last_event == at_ms(31));
}

TEST_CASE("a damaged record cannot state a size that no job has", "[explain]") {
  CHECK(made_record(0, INT_MAX).activity().size == most_ranks);
  CHECK(made_record(-1, INT_MAX).activity().size == most_ranks);
  CHECK(made_record(0, -1).activity().size == 0);
}

TEST_CASE("after its last call has completed, a rank is in user code", "[explain]") {
  const auto activity = made_record(0, 2).complete(10, "a").activity();
  CHECK(activity.waits.empty());
  CHECK_FALSE(activity.has_pending({0, "a"}));
  CHECK(activity.calls_of({0, "a"})->completed_since == at_ms(10));
  CHECK(activity.calls_of({0, "a"})->completed == at_ms(12));
  REQUIRE(activity.last);
  CHECK(activity.last->tensor == tensor_key{0, "a"});
  CHECK(activity.last->time == at_ms(12));
}

TEST_CASE("a call that moves from the fast path to the leader counts once", "[explain]") {
  const auto activity = made_record(0, 2).call(10, "a").call(20, "a").activity();
  CHECK(activity.calls_of({0, "a"})->count == 1);
  CHECK(activity.calls_of({0, "a"})->since == at_ms(10));
}

TEST_CASE("calls that fail as a consequence of the end of the generation were pending", "[explain]") {
  for (const auto kind : {error_kind::disconnected, error_kind::timed_out, error_kind::shut_down,
                          error_kind::aborted, error_kind::dismissed}) {
    const auto activity = made_record(0, 2)
                              .call(10, "a")
                              .call(11, "b")
                              .wait(12, "b")
                              .settle(50, "a", kind)
                              .settle(51, "b", kind)
                              .resume(52, "b", kind)
                              .fail(53, "rank 1 was lost", kind)
                              .activity();
    CHECK(activity.failure == at_ms(50));
    CHECK(activity.has_pending({0, "a"}));
    CHECK(activity.has_pending({0, "b"}));
    CHECK(activity.waits.contains({0, "b"}));
    CHECK(activity.reason == "rank 1 was lost");
    CHECK(activity.last_event == at_ms(53));
  }
}

TEST_CASE("a call that fails alone is not pending, and the rank goes on", "[explain]") {
  const auto activity = made_record(0, 2)
                            .call(10, "a")
                            .wait(10, "a")
                            .settle(20, "a", error_kind::mismatch)
                            .resume(20, "a", error_kind::mismatch)
                            .activity();
  CHECK_FALSE(activity.failure);
  CHECK_FALSE(activity.has_pending({0, "a"}));
  CHECK(activity.calls_of({0, "a"})->problem == error_kind::mismatch);
  CHECK(activity.waits.empty());
}

TEST_CASE("a rank has passed another one if it completed the call that is pending there", "[explain]") {
  const tensor_key a{0, "a"};
  const auto other = made_record(1, 2).complete(10, "a").call(20, "a").activity();
  CHECK_FALSE(made_record(0, 2).activity().has_passed(other, a));
  CHECK_FALSE(made_record(0, 2).complete(11, "a").activity().has_passed(other, a)); // the call before
  CHECK_FALSE(made_record(0, 2).complete(10, "a").call(21, "a").activity().has_passed(other, a));
  CHECK(made_record(0, 2).complete(10, "a").complete(21, "a").activity().has_passed(other, a));
  CHECK(made_record(0, 2).complete(10, "a").complete(21, "a").call(23, "a").activity().has_passed(other, a));
  SECTION("its first call") {
    CHECK(made_record(0, 2).complete(10, "a").activity().has_passed(
        made_record(1, 2).call(20, "a").activity(), a));
  }
  SECTION("calls that others completed while it had joined are earlier ones") {
    const auto joined = made_record(1, 2).complete(10, "a").joined(30).call(40, "a").activity();
    CHECK_FALSE(made_record(0, 2).complete(20, "a").activity().has_passed(joined, a));
    CHECK(made_record(0, 2).complete(20, "a").complete(31, "a").activity().has_passed(joined, a));
  }
  SECTION("what was overwritten is not known") {
    auto record = made_record(1, 2).call(20, "a");
    record.record().threads[0].dropped = 1;
    CHECK_FALSE(made_record(0, 2).complete(10, "a").activity().has_passed(record.activity(), a));
    made_record without_call(0, 2);
    without_call.settle(21, "a");
    CHECK_FALSE(without_call.activity().has_passed(other, a));
  }
}

TEST_CASE("a path that has not ended, or ended by the failure, was running", "[explain]") {
  CHECK(made_record(0, 2).path(event_kind::path_begin, 10).activity().path->since == at_ms(10));
  CHECK(made_record(0, 2).path(event_kind::path_begin, 10).activity().path->name == "shm");
  auto ended = made_record(0, 2).path(event_kind::path_begin, 10).path(event_kind::path_end, 11);
  CHECK_FALSE(ended.activity().path);
  auto failed = made_record(0, 2)
                    .path(event_kind::path_begin, 10)
                    .path(event_kind::path_end, 11, error_kind::timed_out);
  CHECK(failed.activity().path);
  CHECK(failed.activity().failure == at_ms(11));
}

TEST_CASE("an earlier generation is explained without the later ones", "[explain]") {
  auto record = made_record(2, 3, 1)
                    .call(10, "a")
                    .settle(20, "a", error_kind::disconnected)
                    .fail(20, "rank 1 was lost")
                    .enter(30, 2, 1, 2)
                    .complete(40, "a");
  CHECK(last_generation(record.record()) == 2);
  const auto earlier = record.activity(1), later = record.activity(2);
  CHECK(earlier.rank == 2);
  CHECK(earlier.size == 3);
  CHECK(earlier.has_pending({0, "a"}));
  CHECK(earlier.reason == "rank 1 was lost");
  CHECK(later.rank == 1);
  CHECK(later.generation == 2);
  CHECK_FALSE(later.has_pending({0, "a"}));
  CHECK(later.reason.empty());
}

TEST_CASE("a rank that has left its generation waits for the next one, and then connects", "[explain]") {
  auto record = made_record(1, 3).call(10, "a").settle(20, "a", error_kind::disconnected);
  record.regroup(20, regroup_phase::lost, 1).fail(20, "rank 2 was lost");
  CHECK_FALSE(record.activity().regroup);
  record.regroup(30, regroup_phase::waiting, 1);
  const auto waiting = record.activity();
  REQUIRE(waiting.regroup);
  CHECK(waiting.regroup->phase == regroup_phase::waiting);
  CHECK(waiting.regroup->generation == 1);
  CHECK(waiting.regroup->since == at_ms(30));
  CHECK(waiting.has_pending({0, "a"}));
  CHECK(waiting.reason == "rank 2 was lost");
  record.regroup(40, regroup_phase::connecting, 2);
  CHECK(record.activity().regroup->phase == regroup_phase::connecting);
  CHECK(record.activity().regroup->generation == 2);
  SECTION("it connects") {
    record.enter(50, 2, 0, 2);
    CHECK(record.activity(1).regroup);
    CHECK_FALSE(record.activity(2).regroup);
  }
  SECTION("it does not connect, and asks again") {
    record.fail(50, "rank 0 cannot be reached");
    CHECK_FALSE(record.activity().regroup);
    record.regroup(60, regroup_phase::waiting, 1);
    CHECK(record.activity().regroup->since == at_ms(60));
  }
}

TEST_CASE("a process that has never been a member waits for its first generation", "[explain]") {
  const auto activity = made_record(-1, 0, 0).regroup(10, regroup_phase::waiting, 0).activity();
  CHECK(activity.rank == -1);
  CHECK(activity.regroup);
}

TEST_CASE("a process that was killed is gone; one that left, runs, or was told to end is not", "[explain]") {
  CHECK(made_record(0, 2).copied(99, "was killed by signal 9 (Killed)").activity().is_gone());
  CHECK_FALSE(
      made_record(0, 2).copied(99, "was killed by signal 15 (Terminated)", true).activity().is_gone());
  CHECK_FALSE(made_record(0, 2).copied(99).activity().is_gone());
  CHECK_FALSE(made_record(0, 2).fail(90, "shutdown").copied(99, "exited with code 1").activity().is_gone());
}

TEST_CASE("the time of the copy gives the rate of the processor's counter", "[explain]") {
  made_record record(0, 2);
  record.record().uses_counter = true;
  record.record().threads[0].events.push_back({3'000, 0, 0, event_kind::submitted, 0, 0, 0});
  record.copied(1'000);
  record.record().copied->time.ticks = 6'000;
  CHECK(record.activity().last_event == at_ms(500));
}

TEST_CASE("a process that has not called init() has the time of its copy", "[explain]") {
  auto record = made_record(-1, 0).copied(4000);
  record.record().process = 0;
  record.record().origin = {};
  CHECK(record.activity().copied == at_ms(4000));
}

TEST_CASE("without the events of its beginning, a record has the rank of its header, and a completed call",
          "[explain]") {
  made_record record(1, 2);
  record.record().threads[1].events.clear();
  record.record().threads[0].dropped = 5;
  record.settle(10, "a");
  const auto activity = record.activity();
  CHECK(activity.rank == 1);
  CHECK(activity.generation == 1);
  CHECK(activity.dropped == 5);
  CHECK(activity.calls_of({0, "a"})->count == 1);
  CHECK_FALSE(activity.has_pending({0, "a"}));
}

TEST_CASE("unknown kinds, operations and errors are no obstacle", "[explain]") {
  made_record record(0, 1);
  record.record().threads[0].events.push_back(
      {1, 4'000'000'000U, 9, static_cast<event_kind>(200), 255, 0, 0});
  record.record().threads[1].events.push_back({1, 0, 0, event_kind::regroup, 255, 0, 0});
  record.record().threads[0].events.push_back({2, 4'000'000'000U, 9, event_kind::submitted, 255, 0, 0});
  record.record().threads[0].events.push_back({3, 4'000'000'000U, 9, event_kind::settled, 255, 0, 0});
  CHECK(record.activity().calls_of({9, ""})->problem == error_kind::unknown);
  CHECK_FALSE(record.activity().regroup);
}

TEST_CASE("an operation that was submitted after the end of the generation is none of its calls",
          "[explain]") {
  made_record record(0, 2);
  record.complete(1000, "a").call(1500, "b").fail(2000, "rank 1 left", error_kind::shut_down);
  record.settle(2001, "b", error_kind::shut_down);
  CHECK_FALSE(record.activity().refused);
  record.settle(3000, "a", error_kind::shut_down).settle(3001, "c", error_kind::shut_down);
  const auto activity = record.activity();
  REQUIRE(activity.refused);
  CHECK(activity.refused->tensor.name == "a");
  CHECK(activity.refused->time == at_ms(3000));
  CHECK(activity.has_pending({0, "b"}));
  CHECK(activity.calls_of({0, "a"})->count == 1);
  CHECK(activity.calls_of({0, "c"}) == nullptr);
}

TEST_CASE("an operation that is refused before the end of the generation is recorded marks the end",
          "[explain]") {
  made_record record(0, 2);
  record.complete(1000, "a").settle(1900, "b", error_kind::shut_down);
  record.fail(2000, "rank 1 left", error_kind::shut_down);
  const auto activity = record.activity();
  REQUIRE(activity.refused);
  CHECK(activity.refused->tensor.name == "b");
  CHECK(activity.failure == at_ms(1900));
}
