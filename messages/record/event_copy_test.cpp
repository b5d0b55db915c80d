#include "messages/record/event_copy.hpp"

#include <catch2/catch.hpp>

#include <sys/mman.h>
#include <sys/stat.h>

#include <thread>

#include "messages/record/event_reader.hpp"
#include "messages/values/descriptor.hpp"

using namespace farandole;
using namespace std::chrono_literals;

namespace {

descriptor empty_file() {
  descriptor file(::memfd_create("copy", MFD_CLOEXEC));
  REQUIRE(file);
  return file;
}

struct memory {
  descriptor file;
  std::shared_ptr<event_region> region;
};

memory memory_of(std::size_t ring_events) {
  auto file = event_region::create(ring_events);
  REQUIRE(file);
  auto region = event_region::map(file->get(), ring_events);
  REQUIRE(region);
  return {std::move(*file), *region};
}

event_record record_in(const descriptor& file, std::size_t ring_events) {
  const auto region = event_region::map(file.get(), ring_events);
  REQUIRE(region);
  auto record = read_event_record((*region)->bytes());
  REQUIRE(record);
  return *record;
}

const record_copy facts{{1'000, 5s, 1'700'000'000s}, 3, "was killed by signal 9 (Killed)", true};

} // namespace

TEST_CASE("a copy has the events and names of the memory, and what the launcher knows") {
  const auto source = memory_of(64);
  event_recorder recorder(source.region);
  recorder.describe({7, 1, 2, 4, 2, "alpha"});
  const auto weights = recorder.intern("weights");
  for (std::uint64_t number = 0; number < 10; ++number)
    recorder.record(event_kind::submitted, weights, 0, 0, number);
  std::thread([&] { recorder.record(event_kind::joined, 0, 0); }).join();
  CHECK(is_recorded_in(source.file.get()));
  const auto file = empty_file();
  REQUIRE_FALSE(copy_event_record(source.file.get(), file.get(), facts));
  const auto copy = record_in(file, 64);
  CHECK(copy.member.rank == 2);
  CHECK(copy.member.host == "alpha");
  REQUIRE(copy.threads.size() == 2);
  CHECK(copy.threads[0].events.size() == 10);
  CHECK(copy.threads[0].events[9].first == 9);
  CHECK(copy.name(weights) == "weights");
  REQUIRE(copy.copied);
  CHECK(copy.copied->time.ticks == 1'000);
  CHECK(copy.copied->time.steady == 5s);
  CHECK(copy.copied->time.system == 1'700'000'000s);
  CHECK(copy.copied->slot == 3);
  CHECK(copy.copied->ending == "was killed by signal 9 (Killed)");
  CHECK(copy.copied->told_to_end);
  CHECK(rank_recorded_in(source.file.get()) == 2);
  CHECK_FALSE(read_event_record(source.region->bytes())->copied);
}

TEST_CASE("a copy does not store the pages that were not touched") {
  const auto source = memory_of(4096);
  event_recorder recorder(source.region);
  recorder.record(event_kind::joined, 0, 0);
  const auto file = empty_file();
  REQUIRE_FALSE(copy_event_record(source.file.get(), file.get(), facts));
  struct stat status {};
  REQUIRE(::fstat(file.get(), &status) == 0);
  CHECK(static_cast<std::size_t>(status.st_size) == event_region_layout{4096}.bytes());
  CHECK(status.st_blocks * 512 <= 8 * 4096);
}

TEST_CASE("memory that no process has taken is copied as a record without events") {
  const auto source = memory_of(16);
  CHECK_FALSE(is_recorded_in(source.file.get()));
  CHECK(rank_recorded_in(source.file.get()) == -1);
  const auto file = empty_file();
  REQUIRE_FALSE(copy_event_record(source.file.get(), file.get(), {facts.time, 1, "exited with code 1"}));
  const auto copy = record_in(file, 16);
  CHECK(copy.process == 0);
  CHECK(copy.member.rank == -1);
  CHECK(copy.threads.empty());
  CHECK(copy.copied->ending == "exited with code 1");
}

TEST_CASE("a file that is no memory of a record is refused, and a long ending is cut") {
  const auto odd = empty_file();
  const auto problem = copy_event_record(odd.get(), empty_file().get(), facts);
  CHECK(problem.kind == error_kind::invalid_argument);
  const auto source = memory_of(16);
  const auto file = empty_file();
  REQUIRE_FALSE(copy_event_record(source.file.get(), file.get(), {facts.time, 1, std::string(500, 'x')}));
  CHECK(record_in(file, 16).copied->ending == std::string(127, 'x'));
}

TEST_CASE("a copy made while the owner writes has whole events in order") {
  const auto source = memory_of(64);
  std::atomic<bool> stop{false};
  std::thread owner([&] {
    event_recorder recorder(source.region);
    for (std::uint64_t number = 0; !stop.load(); ++number)
      recorder.record(event_kind::joined, static_cast<std::uint32_t>(number), 0, 0, number, ~number);
  });
  bool sound = true;
  for (int round = 0; round < 300; ++round) {
    const auto file = empty_file();
    sound = sound && !copy_event_record(source.file.get(), file.get(), facts);
    const auto copy = record_in(file, 64);
    std::uint64_t previous = 0;
    for (const auto& thread : copy.threads)
      for (const auto& entry : thread.events) {
        sound = sound && entry.second == ~entry.first &&
                entry.name == static_cast<std::uint32_t>(entry.first) &&
                (entry.first == 0 || entry.first > previous);
        previous = entry.first;
      }
  }
  stop = true;
  owner.join();
  CHECK(sound);
}
