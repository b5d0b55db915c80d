#include "messages/record/event_trace.hpp"

#include <catch2/catch.hpp>
#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

#include "messages/record/event_reader.hpp"
#include "messages/record/event_recorder.hpp"
#include "messages/record/packed_record.hpp"
#include "messages/record/trace_writer.hpp"
#include "tests/small_disk.hpp"
#include "tests/temporary_folder.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

constexpr std::size_t ring_events = 64;

descriptor memory() {
  return descriptor{::memfd_create("event-trace-test", MFD_CLOEXEC)};
}

event_record read_from(int file, std::uint64_t bytes) {
  auto region = event_region::map(file, rounded_ring_events(bytes / sizeof(event)));
  REQUIRE(region);
  auto record = read_event_record((*region)->bytes());
  REQUIRE(record);
  return std::move(*record);
}

/// A process that records, and the trace of it.
struct traced {
  explicit traced(const trace_bounds& limits = {0, 1 << 20})
      : bounds(limits), region(*event_region::anonymous(ring_events)), recorder(region, tick_clock(false)) {
    recorder.describe({7, 1, 3, 4, 3, "alpha"});
  }
  void begin(descriptor file = memory()) {
    auto made = event_trace::begin(region, std::move(file), bounds);
    REQUIRE(made);
    trace.emplace(std::move(*made));
  }
  void submit(const std::string& name) {
    recorder.record(event_kind::submitted, recorder.intern(name), 0, 0, ++submitted);
  }
  /// What a reader finds now.
  event_record read() const { return read_from(trace->file(), bounds.bytes); }

  trace_bounds bounds;
  std::shared_ptr<event_region> region;
  event_recorder recorder;
  std::optional<event_trace> trace;
  std::uint64_t submitted = 0;
};

} // namespace

TEST_CASE("a trace has all events since its beginning, also those that the record has lost since") {
  traced process;
  process.submit("before");
  process.begin();
  for (int i = 0; i < 500; ++i) {
    process.submit("tensor " + std::to_string(i % 7));
    if (i % 50 == 49)
      process.trace->pull();
  }
  const auto record = process.read();
  REQUIRE(record.threads.size() == 1);
  const auto& events = record.threads.front().events;
  REQUIRE(events.size() == 500);
  CHECK(record.threads.front().dropped == 0);
  for (std::size_t i = 0; i < events.size(); ++i) {
    CHECK(events[i].first == i + 2);
    CHECK(record.name(events[i].name) == "tensor " + std::to_string(i % 7));
  }
  CHECK(record.member.rank == 3);
  CHECK(record.member.host == "alpha");
  CHECK_FALSE(record.copied);
}

TEST_CASE("a trace says how many names the record had no room for") {
  traced process;
  process.begin();
  process.submit(std::string(1 << 20, 'n'));
  process.trace->finish({});
  CHECK(process.read().refused_names == 1);
}

TEST_CASE("events that were overwritten before they could be copied leave a gap that states their number") {
  traced process;
  process.begin();
  process.submit("first");
  CHECK(process.trace->pull() < 1);
  for (std::size_t i = 0; i < 3 * ring_events; ++i)
    process.submit("next");
  CHECK(process.trace->pull() >= 1);
  const auto events = process.read().threads.front().events;
  REQUIRE(events.size() > 2);
  CHECK(events[1].kind == event_kind::gap);
  CHECK(events[1].first == process.trace->dropped());
  CHECK(events[2].first == 2 + process.trace->dropped());
  CHECK(events.size() == 2 + 3 * ring_events - process.trace->dropped());
}

TEST_CASE("a trace ends when it has as many bytes as it may have") {
  traced process({0, 100 * sizeof(event)});
  process.begin();
  for (int i = 0; i < 300; ++i) {
    process.submit("tensor");
    process.trace->pull();
  }
  CHECK(process.trace->has_ended());
  CHECK(process.trace->is_full());
  CHECK(process.read().threads.front().events.size() == 100);
}

TEST_CASE(
    "a trace ends after as many marked steps as were requested, not counting the one in which it began") {
  traced process({3, 1 << 20});
  process.begin();
  for (std::uint64_t step = 1; step <= 10; ++step) {
    process.submit("tensor");
    process.submit("another");
    process.recorder.record(event_kind::step, 0, 0, 0, step);
    process.trace->pull();
  }
  const auto events = process.read().threads.front().events;
  CHECK(std::ranges::count(events, event_kind::step, &event::kind) == 4);
}

TEST_CASE("without marks, a step has passed when at least half of the tensors have recurred") {
  traced process({3, 1 << 20});
  process.begin();
  for (int step = 0; step < 10; ++step) {
    for (const char* name : {"a", "b", "c"})
      process.submit(name);
    process.submit("loss");
    process.submit("loss"); // more often than once in a step
    if (step == 0)
      process.submit("start");
    process.trace->pull();
  }
  CHECK(process.trace->has_ended());
  const auto record = process.read();
  std::map<std::string, int> calls;
  for (const auto& entry : record.threads.front().events)
    ++calls[record.name(entry.name)];
  CHECK(calls["a"] == 4);
}

TEST_CASE("a trace ends when its disk is full, and remains readable") {
  const temporary_folder folder;
  on_disk_of(1 << 20, folder.path(), [&] {
    traced process;
    const auto open = [&](const std::string& name) {
      return descriptor{::open(folder.file(name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
    };
    process.begin(open("trace"));
    const auto submit = [&] {
      process.submit("tensor");
      process.trace->pull();
    };
    submit();
    const auto other = open("other");
    while (::write(other.get(), "other", 5) > 0) {
    }
    SECTION("in the ring of another thread") {
      std::thread(submit).join();
    }
    SECTION("in a ring that has grown") {
      for (int i = 0; i < 10'000; ++i)
        submit();
    }
    CHECK(process.trace->problem() == ENOSPC);
    CHECK_FALSE(process.trace->is_full());
    submit();
    process.trace->finish({});
    std::filesystem::resize_file(folder.file("other"), 0); // a reader looks at all rings
    const auto record = process.read();
    REQUIRE(record.threads.size() == 1);
    CHECK(record.threads.front().events.size() == process.trace->events());
  });
}

TEST_CASE("the process that traces adds what it knows, at the end") {
  traced process;
  process.begin();
  process.submit("tensor");
  process.trace->pull();
  process.trace->finish({tick_clock(false).read(), 5, "was killed by signal 9 (Killed)", false, 4711, 0});
  const auto record = process.read();
  REQUIRE(record.copied);
  CHECK(record.copied->slot == 5);
  CHECK(record.copied->ending == "was killed by signal 9 (Killed)");
}

TEST_CASE("a process that has not called init() cannot be traced") {
  auto region = event_region::anonymous(ring_events);
  REQUIRE(region);
  const auto trace = event_trace::begin(*region, memory(), {});
  REQUIRE_FALSE(trace);
  CHECK(trace.error().text == "the process has not called init()");
}

TEST_CASE(
    "a writer traces processes on its thread, also those that start later, until each has reached a bound") {
  traced first({0, 1 << 20}), second({0, 1 << 20});
  std::mutex mutex;
  std::condition_variable changed;
  int traced_processes = 0;
  bool second_has_started = false, ended = false;
  std::optional<written_traces> written;
  const auto source_of = [&](traced& process, std::int32_t slot) {
    return trace_source{&process,
                        [&] {
                          const std::lock_guard lock(mutex);
                          ++traced_processes;
                          changed.notify_one();
                          return expected<std::shared_ptr<event_region>>(process.region);
                        },
                        [slot] {
                          return record_copy{tick_clock(false).read(), slot};
                        }};
  };
  trace_plan plan;
  plan.bounds = {2, 1 << 20};
  plan.sources = [&] {
    const std::lock_guard lock(mutex);
    std::vector<trace_source> all{source_of(first, 0)};
    if (second_has_started)
      all.push_back(source_of(second, 1));
    return all;
  };
  plan.ended = [&] {
    const std::lock_guard lock(mutex);
    ended = true;
    changed.notify_one();
  };
  trace_writer writer(plan);
  // The first process must not reach its bound before the second is traced.
  std::unique_lock lock(mutex);
  const auto traces = [&](int count) { return [&, count] { return traced_processes == count; }; };
  REQUIRE(changed.wait_for(lock, std::chrono::seconds(60), traces(1)));
  second_has_started = true;
  REQUIRE(changed.wait_for(lock, std::chrono::seconds(60), traces(2)));
  // The traced processes make steps until the writer has seen enough of them.
  for (std::uint64_t step = 1; !ended; ++step) {
    lock.unlock();
    for (auto* process : {&first, &second}) {
      process->submit("tensor");
      process->recorder.record(event_kind::step, 0, 0, 0, step);
    }
    lock.lock();
    changed.wait_for(lock, std::chrono::milliseconds(1), [&] { return ended; });
    REQUIRE(step < 1'000'000);
  }
  writer.end([&](written_traces result) {
    const std::lock_guard done(mutex);
    written = std::move(result);
    changed.notify_one();
  });
  REQUIRE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return written.has_value(); }));
  CHECK(written->problems.empty());
  REQUIRE(written->traces.size() == 2);
  for (std::int32_t slot = 0; slot < 2; ++slot) {
    auto& trace = written->traces[static_cast<std::size_t>(slot)];
    CHECK(trace.slot == slot);
    CHECK(trace.rank == 3);
    CHECK_FALSE(trace.is_full);
    const auto unpacked = memory();
    REQUIRE_FALSE(unpack_record(trace.file.get(), unpacked.get()));
    const auto events = read_from(unpacked.get(), 1 << 20).threads.front().events;
    CHECK(std::ranges::count(events, event_kind::step, &event::kind) >= 3);
  }
}
