#include "messages/record/event_reader.hpp"

#include <catch2/catch.hpp>

#include <random>

#include "messages/record/event_record_testing.hpp"

using namespace farandole;
using Catch::Matchers::Contains;

namespace {

record_bytes small_record() {
  auto region = event_region::anonymous(16);
  REQUIRE(region);
  event_recorder recorder(*region);
  recorder.describe({5, 1, 0, 2, 0, "alpha"});
  for (std::uint64_t number = 0; number < 20; ++number)
    recorder.record(event_kind::joined, recorder.intern("name." + std::to_string(number)), 0, 0, number);
  return record_bytes(**region);
}

/// The error for bytes that are no record.
std::string refusal_of(std::span<const std::byte> memory) {
  const auto record = read_event_record(memory);
  REQUIRE_FALSE(record);
  CHECK(record.error().kind == error_kind::invalid_argument);
  return record.error().text;
}

} // namespace

TEST_CASE("a record of bytes has the events that were not overwritten") {
  auto source = small_record();
  const auto record = read_event_record(source.bytes());
  REQUIRE(record);
  REQUIRE(record->threads.size() == 1);
  CHECK(record->threads[0].events.size() == 15);
  CHECK(record->threads[0].dropped == 5);
  CHECK(record->name(record->threads[0].events[0].name) == "name.5");
  CHECK(record->name(0).empty());
  CHECK(record->name(4'000'000'000U).empty());
  CHECK_FALSE(record->copied);
}

TEST_CASE("memory that no process has taken is no record") {
  const auto region = event_region::anonymous(16);
  REQUIRE(region);
  CHECK_THAT(refusal_of((*region)->bytes()), Contains("it does not begin with the mark of one"));
}

TEST_CASE("bytes that are too few, too many or not aligned are no record") {
  auto source = small_record();
  const auto all = source.bytes();
  CHECK_THAT(refusal_of({}), Contains("it has only 0 bytes"));
  CHECK_THAT(refusal_of(all.first(100)), Contains("it has only 100 bytes"));
  CHECK_THAT(refusal_of(all.first(all.size() - 1)),
             Contains("it has " + std::to_string(all.size() - 1) + " bytes instead of " +
                      std::to_string(all.size())));
  CHECK_THAT(refusal_of(all.subspan(1)), Contains("its memory is not aligned"));
  std::vector<std::uint64_t> longer(all.size() / 8 + 8);
  std::memcpy(longer.data(), all.data(), all.size());
  CHECK_THAT(refusal_of(std::as_bytes(std::span(longer))), Contains("bytes instead of"));
}

TEST_CASE("a header with an impossible value is refused") {
  auto source = small_record();
  auto& header = source.header();
  SECTION("mark") {
    header.magic = header.magic + 1;
    CHECK_THAT(refusal_of(source.bytes()), Contains("it does not begin with the mark of one"));
  }
  SECTION("version") {
    header.version = event_region_version + 1;
    CHECK_THAT(refusal_of(source.bytes()), Contains("has version 2; this program reads version 1"));
  }
  SECTION("slots") {
    for (const std::uint32_t number : {0U, 3U, 4'000'000'000U, 1U << 21}) {
      header.ring_events = number;
      CHECK_THAT(refusal_of(source.bytes()), Contains("its rings have " + std::to_string(number) + " slots"));
    }
    header.ring_events = 32;
    CHECK_THAT(refusal_of(source.bytes()), Contains("bytes instead of"));
  }
}

TEST_CASE("texts without an end, counts that are too large and unknown kinds do not disturb the reader") {
  auto source = small_record();
  auto& header = source.header();
  for (auto& letter : header.host)
    letter = 'h';
  const event_region_layout layout{16};
  auto& ring = *reinterpret_cast<event_ring_header*>(source.bytes().data() + layout.rings_offset());
  for (auto& letter : ring.thread_name)
    letter = 't';
  ring.written = ~std::uint64_t{0};
  const auto record = read_event_record(source.bytes());
  REQUIRE(record);
  CHECK(record->member.host == std::string(header.host.size(), 'h'));
  CHECK(record->threads.at(0).name == std::string(ring.thread_name.size(), 't'));
  CHECK(record->threads.at(0).events.size() <= 16);
}

TEST_CASE("names that overlap are refused, so that a small file cannot fill the memory") {
  auto source = small_record();
  for (std::size_t i = 0; i < 3; ++i) {
    source.name(i).state = 2;
    source.name(i).offset = 0;
    source.name(i).length = event_region_layout::name_bytes;
  }
  CHECK_THAT(refusal_of(source.bytes()), Contains("its names overlap"));
}

TEST_CASE("a slot that a writer was overwriting during the copy holds no event") {
  auto source = small_record();
  const event_region_layout layout{16};
  auto* slots =
      reinterpret_cast<event*>(source.bytes().data() + layout.rings_offset() + sizeof(event_ring_header));
  slots[9] = {};
  const auto record = read_event_record(source.bytes());
  REQUIRE(record);
  CHECK(record->threads.at(0).events.size() == 14);
  CHECK(record->threads.at(0).dropped == 6);
}

TEST_CASE("random bytes behind a sound header give a record or an error") {
  std::mt19937_64 chance(22);
  auto source = small_record();
  const auto first_free = sizeof(event_region_header) / 8;
  auto* words = reinterpret_cast<std::uint64_t*>(source.bytes().data());
  for (int round = 0; round < 20; ++round) {
    for (auto i = first_free; i < source.bytes().size() / 8; i += 1 + chance() % 64)
      words[i] = chance();
    const auto record = read_event_record(source.bytes());
    if (!record) {
      CHECK_FALSE(record.error().text.empty());
      continue;
    }
    CHECK(record->threads.size() <= event_ring_limit);
    for (const auto& thread : record->threads)
      CHECK(thread.events.size() <= 16);
  }
}
