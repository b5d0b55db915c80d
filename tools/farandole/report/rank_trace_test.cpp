#include "tools/farandole/report/rank_trace.hpp"

#include <catch2/catch.hpp>

#include "tools/farandole/explain/explain_testing.hpp"

using namespace farandole;

namespace {

trace_time ms(std::int64_t count) {
  return std::chrono::milliseconds(count);
}

rank_trace trace_in(made_record& made, traced_tensors& tensors, std::uint64_t generation = 1) {
  const auto& record = made.record();
  const auto scale = scale_of(record, {});
  return trace_of(record, activity_in(record, generation, scale), scale, record.origin.system, tensors);
}

void add(made_record& made, std::size_t thread, std::uint64_t at_ms, event_kind kind, std::uint64_t first = 0,
         std::uint64_t second = 0, std::uint32_t name = 1) {
  made.record().threads[thread].events.push_back({at_ms * 1'000'000, name, 0, kind, 0, first, second});
}

} // namespace

TEST_CASE("a trace has the calls, waits and transfers of a rank in its order", "[report]") {
  made_record made(1, 2);
  made.call(10, "a").wait(11, "a");
  add(made, 1, 12, event_kind::scheduled, 5);
  add(made, 2, 13, event_kind::path_begin, 5);
  add(made, 2, 14, event_kind::path_end, 5, 200'000);
  add(made, 2, 15, event_kind::path_begin, 5); // the second run of one bundle
  add(made, 2, 17, event_kind::path_end, 5, 300'000);
  made.settle(18, "a").resume(19, "a");
  traced_tensors tensors;
  const auto trace = trace_in(made, tensors);
  CHECK(trace.rank == 1);
  CHECK(trace.host == "alpha");
  CHECK(trace.whole);
  REQUIRE(trace.calls.size() == 1);
  CHECK(tensors.at(trace.calls[0].tensor) == tensor_key{0, "a"});
  CHECK(trace.calls[0].called == ms(10));
  CHECK(trace.calls[0].sequence == 5);
  CHECK(trace.calls[0].scheduled == ms(12));
  CHECK(trace.calls[0].settled == ms(18));
  CHECK_FALSE(trace.calls[0].round);
  REQUIRE(trace.waits.size() == 1);
  CHECK(trace.waits[0].begin == ms(11));
  CHECK(trace.waits[0].end == ms(19));
  CHECK(trace.waits[0].call == 0);
  const auto& transfer = trace.transfers.at({0, 5});
  CHECK(transfer.begin == ms(13));
  CHECK(transfer.end == ms(17));
  CHECK(transfer.ran == ms(3));
  CHECK(transfer.waited == std::chrono::microseconds(500));
}

TEST_CASE("a call that leaves the fast path is one call, and no longer on it", "[report]") {
  made_record made(0, 2);
  made.call(5, "a").settle(6, "a");
  add(made, 0, 10, event_kind::published, 16, 3);
  add(made, 2, 20, event_kind::settled, 0);
  add(made, 0, 30, event_kind::published, 16, 4);
  add(made, 0, 40, event_kind::settled, 5);
  traced_tensors tensors;
  const auto trace = trace_in(made, tensors);
  REQUIRE(trace.calls.size() == 3);
  CHECK_FALSE(trace.calls[1].round);
  CHECK(trace.calls[2].round == 4);
  CHECK(trace.calls[2].settled == ms(40));
}

TEST_CASE("the leader's record tells when all ranks had called", "[report]") {
  made_record made(0, 4);
  made.call(10, "a");
  add(made, 1, 15, event_kind::ready, 5'000'000, pair_field(0, 3));
  traced_tensors tensors;
  const auto trace = trace_in(made, tensors);
  REQUIRE(trace.calls.size() == 1);
  REQUIRE(trace.calls[0].ready);
  CHECK(trace.calls[0].ready->time == ms(15));
  CHECK(trace.calls[0].ready->last == 3);
}

TEST_CASE("a trace ends where its generation ends or the job fails, and begins with its generation",
          "[report]") {
  made_record made(2, 3, 1);
  made.complete(10, "a").call(20, "b").wait(20, "b").settle(30, "b", error_kind::disconnected);
  made.resume(30, "b", error_kind::disconnected).fail(31, "rank 1 was lost");
  made.enter(40, 2, 1, 2).complete(50, "c");
  traced_tensors tensors;
  const auto first = trace_in(made, tensors, 1), second = trace_in(made, tensors, 2);
  REQUIRE(first.calls.size() == 2);
  CHECK_FALSE(first.calls[1].settled);
  CHECK(first.waits.size() == 1);
  REQUIRE(second.calls.size() == 1);
  CHECK(tensors.at(second.calls[0].tensor).name == "c");
  CHECK(second.begin == ms(40));
  CHECK(second.whole);
}

TEST_CASE("where events were overwritten, the trace begins with the last thread that lost some", "[report]") {
  made_record made(0, 2);
  made.complete(10, "a").complete(20, "a");
  made.record().threads[0].dropped = 7;
  traced_tensors tensors;
  const auto trace = trace_in(made, tensors);
  CHECK(trace.begin == ms(10));
  CHECK_FALSE(trace.whole);
  CHECK(trace.calls.size() == 2);
}

TEST_CASE("an end without a begin, and a wait without its call, are no obstacle", "[report]") {
  made_record made(0, 2);
  made.settle(1, "a").resume(2, "a").path(event_kind::path_end, 3).wait(4, "b").resume(6, "b");
  traced_tensors tensors;
  const auto trace = trace_in(made, tensors);
  CHECK(trace.calls.empty());
  CHECK(trace.transfers.empty());
  REQUIRE(trace.waits.size() == 1);
  CHECK_FALSE(trace.waits[0].call);
}
