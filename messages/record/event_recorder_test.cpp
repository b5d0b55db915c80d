#include "messages/record/event_recorder.hpp"

#include <catch2/catch.hpp>

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <filesystem>
#include <optional>
#include <thread>

#include "messages/record/event_reader.hpp"
#include "tests/small_disk.hpp"
#include "tests/temporary_folder.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

namespace {

std::shared_ptr<event_region> small_region() {
  auto region = event_region::anonymous(16);
  REQUIRE(region);
  return *region;
}

event_record content_of(const event_region& region) {
  auto record = read_event_record(region.bytes());
  REQUIRE(record);
  return *record;
}

/// Waits until the kernel knows none of the threads that own rings, apart from this one.
void await_ends_of_owners(const event_region& region) {
  for (std::size_t i = 0; i < event_ring_limit; ++i) {
    const auto owner = static_cast<int>(region.ring(i).header().thread.load());
    while (owner != 0 && owner != ::gettid() && ::syscall(SYS_tgkill, ::getpid(), owner, 0) == 0)
      std::this_thread::yield();
  }
}

} // namespace

TEST_CASE("without memory a recorder records nothing") {
  event_recorder recorder(nullptr);
  CHECK_FALSE(recorder.records());
  CHECK(recorder.intern("weights") == 0);
  recorder.describe({1, 2, 3, 4, 0, "alpha"});
  recorder.record(event_kind::joined, 0, 0);
}

TEST_CASE("a record says of which member it is, and holds its events in order") {
  const auto region = small_region();
  event_recorder recorder(region, tick_clock(false));
  CHECK(recorder.records());
  recorder.describe({77, 2, 3, 4, 1, "alpha"});
  const auto weights = recorder.intern("weights");
  recorder.record(event_kind::submitted, weights, 5, 1, 2, 3);
  recorder.record(event_kind::settled, weights, 5, 4);
  const auto record = content_of(*region);
  CHECK(record.member.job == 77);
  CHECK(record.member.generation == 2);
  CHECK(record.member.rank == 3);
  CHECK(record.member.size == 4);
  CHECK(record.member.local_rank == 1);
  CHECK(record.member.host == "alpha");
  CHECK(record.process == static_cast<std::uint32_t>(::getpid()));
  CHECK_FALSE(record.uses_counter);
  REQUIRE(record.threads.size() == 1);
  CHECK(record.threads[0].thread == static_cast<std::uint32_t>(::gettid()));
  const auto& events = record.threads[0].events;
  REQUIRE(events.size() == 2);
  CHECK(events[0] == event{events[0].ticks, weights, 5, event_kind::submitted, 1, 2, 3});
  CHECK(events[1] == event{events[1].ticks, weights, 5, event_kind::settled, 4, 0, 0});
  CHECK(events[0].ticks <= events[1].ticks);
  CHECK(events[0].ticks >= record.origin.ticks);
  CHECK(record.name(weights) == "weights");
}

TEST_CASE("a long name of a host is cut, and the record stays readable") {
  const auto region = small_region();
  event_recorder recorder(region);
  recorder.describe({1, 1, 0, 1, 0, std::string(200, 'h')});
  CHECK(content_of(*region).member.host == std::string(63, 'h'));
}

TEST_CASE("of two recorders on one memory only the first records, and a later one may follow it") {
  const auto region = small_region();
  std::optional<event_recorder> first(std::in_place, region);
  event_recorder second(region);
  CHECK(first->records());
  CHECK_FALSE(second.records());
  first->record(event_kind::joined, 0, 0, 0, 1);
  second.record(event_kind::joined, 0, 0, 0, 2);
  first.reset();
  event_recorder third(region);
  CHECK(third.records());
  third.record(event_kind::joined, 0, 0, 0, 3);
  const auto record = content_of(*region);
  // The thread got its ring back.
  REQUIRE(record.threads.size() == 1);
  REQUIRE(record.threads[0].events.size() == 2);
  CHECK(record.threads[0].events[0].first == 1);
  CHECK(record.threads[0].events[1].first == 3);
}

TEST_CASE("two recorders on two memories do not mix, also on one thread") {
  const auto one = small_region(), other = small_region();
  event_recorder first(one), second(other);
  for (std::uint64_t number = 0; number < 4; ++number) {
    first.record(event_kind::joined, 0, 0, 0, number);
    second.record(event_kind::joined, 0, 0, 0, number + 10);
  }
  CHECK(content_of(*one).threads.at(0).events.at(3).first == 3);
  CHECK(content_of(*other).threads.at(0).events.at(3).first == 13);
  CHECK(content_of(*one).threads.size() == 1);
}

TEST_CASE("memory that a killed process left behind can be taken, with its events") {
  const auto file = event_region::create(16);
  REQUIRE(file);
  const auto region = event_region::map(file->get(), 16);
  REQUIRE(region);
  const auto child = ::fork();
  if (child == 0) {
    event_recorder recorder(*region);
    recorder.record(event_kind::joined, 0, 0, 0, 1);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  const auto left = content_of(**region);
  CHECK(left.process == static_cast<std::uint32_t>(child));
  REQUIRE(left.threads.size() == 1);
  event_recorder recorder(*region);
  CHECK(recorder.records());
  recorder.record(event_kind::joined, 0, 0, 0, 2);
  const auto record = content_of(**region);
  CHECK(record.process == static_cast<std::uint32_t>(::getpid()));
  CHECK(record.threads.at(0).events.back().first == 2);
}

TEST_CASE("memory that a killed process left behind can be taken by the next process with the same id") {
  const auto region = small_region();
  {
    event_recorder killed(region);
    killed.record(event_kind::joined, 0, 0, 0, 1);
  }
  region->header().attached = 1;
  region->header().process_start -= 1;
  event_recorder recorder(region);
  REQUIRE(recorder.records());
  recorder.record(event_kind::joined, 0, 0, 0, 2);
  CHECK(content_of(*region).threads.at(0).events.back().first == 2);
}

TEST_CASE("calls without a name, however many, leave room for names and reasons") {
  const auto region = small_region();
  event_recorder recorder(region);
  const auto name_of = [&](std::uint32_t index) { return region->names().at(index); };
  CHECK(name_of(recorder.intern("allreduce.noname.7")) == "allreduce.noname.7");
  for (int number = 0; number < 10'000; ++number)
    CHECK(recorder.intern("allreduce.noname." + std::to_string(number)) != 0);
  CHECK(name_of(recorder.intern("allreduce.noname.10000")) == "allreduce.noname");
  CHECK(name_of(recorder.intern("weights")) == "weights");
  CHECK(region->names().refused() == 0);
  for (int number = 0; number < 10'000; ++number)
    recorder.intern("layer." + std::to_string(number));
  CHECK(region->names().refused() > 0);
  CHECK(name_of(recorder.intern_reason("rank 1 was lost")) == "rank 1 was lost");
}

TEST_CASE("details are recorded as long as any reader wants them") {
  event_recorder recorder(small_region());
  recorder.detailed(true);
  recorder.detailed(true);
  recorder.detailed(false);
  CHECK(recorder.detailed());
  recorder.detailed(false);
  CHECK_FALSE(recorder.detailed());
}

TEST_CASE("a file for which its disk has no room is refused with the remedy") {
  const temporary_folder folder;
  const auto path = folder.file("record");
  const auto problem = [&] {
    const auto region = event_region::open(path, 4096);
    REQUIRE_FALSE(region);
    CHECK(region.error().text ==
          "the event record: " + path +
              " cannot be sized; FARANDOLE_RECORDER_FILE can name a file on a disk with room "
              "for 4590080 bytes: No space left on device");
  };
  on_disk_of(1 << 20, folder.path(), [&] {
    problem();
    CHECK(std::filesystem::file_size(path) == 0);
    std::filesystem::resize_file(path, event_region_layout{4096}.bytes()); // without blocks
    problem();
    CHECK(event_region::open(folder.file("small"), 16));
  });
}

TEST_CASE("threads without a ring are counted, and rings of threads that have ended are used again") {
  const auto region = small_region();
  event_recorder recorder(region);
  constexpr std::size_t count = event_ring_limit + 3;
  std::barrier all_recorded(count);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i)
    threads.emplace_back([&] {
      recorder.record(event_kind::joined, 0, 0);
      all_recorded.arrive_and_wait();
      recorder.record(event_kind::joined, 0, 0);
    });
  for (auto& thread : threads)
    thread.join();
  auto record = content_of(*region);
  CHECK(record.threads.size() == event_ring_limit);
  CHECK(record.ringless == 3);
  for (const auto& thread : record.threads)
    CHECK(thread.events.size() == 2);
  await_ends_of_owners(*region);
  recorder.record(event_kind::joined, 0, 0, 0, 7);
  record = content_of(*region);
  CHECK(record.ringless == 3);
  CHECK(record.threads.at(0).thread == static_cast<std::uint32_t>(::gettid()));
  CHECK(record.threads.at(0).events.back().first == 7);
}

TEST_CASE("a record shows the names of its threads") {
  const auto region = small_region();
  event_recorder recorder(region);
  std::thread([&] {
    ::pthread_setname_np(::pthread_self(), "lane 0");
    recorder.record(event_kind::path_begin, 0, 0);
  }).join();
  CHECK(content_of(*region).threads.at(0).name == "lane 0");
}

TEST_CASE("memory of another size is refused") {
  const auto file = event_region::create(16);
  REQUIRE(file);
  const auto region = event_region::map(file->get(), 32);
  REQUIRE_FALSE(region);
  CHECK(region.error().kind == error_kind::invalid_argument);
  CHECK_FALSE(event_region::map(-1, 16));
}

TEST_CASE("a number of events is rounded up to a power of two within the limits") {
  CHECK(rounded_ring_events(0) == 16);
  CHECK(rounded_ring_events(17) == 32);
  CHECK(rounded_ring_events(4096) == 4096);
  CHECK(rounded_ring_events(std::size_t{1} << 40) == ring_events_limit);
  CHECK(layout_of(event_region_layout{4096}.bytes())->ring_events == 4096);
  CHECK_FALSE(layout_of(event_region_layout{4096}.bytes() + 1));
}
