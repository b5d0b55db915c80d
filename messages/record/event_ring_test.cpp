#include "messages/record/event_ring.hpp"

#include <catch2/catch.hpp>

#include <thread>

using namespace farandole;

namespace {

struct ring_memory {
  event_ring_header header{};
  std::array<event_words, 8> slots{};

  event_ring ring() { return {header, slots}; }
};

/// An event whose fields all follow from its number.
event numbered(std::uint64_t number) {
  return {number,
          static_cast<std::uint32_t>(number),
          static_cast<std::uint16_t>(number),
          event_kind::joined,
          static_cast<std::uint8_t>(number),
          number * 3,
          ~number};
}

/// Whether these are the events from `first` on.
bool are_numbered_from(std::uint64_t first, const std::vector<event>& events) {
  for (std::size_t i = 0; i < events.size(); ++i)
    if (events[i] != numbered(first + i))
      return false;
  return true;
}

} // namespace

TEST_CASE("an empty ring has no events") {
  ring_memory memory;
  const auto excerpt = memory.ring().read(0);
  CHECK(excerpt.events.empty());
  CHECK(excerpt.end == 0);
  CHECK(excerpt.dropped == 0);
}

TEST_CASE("a ring that is not full returns all events from the number on") {
  ring_memory memory;
  for (std::uint64_t number = 0; number < 5; ++number)
    memory.ring().write(numbered(number));
  const auto all = memory.ring().read(0);
  CHECK(all.events.size() == 5);
  CHECK(are_numbered_from(0, all.events));
  const auto rest = memory.ring().read(3);
  CHECK(rest.events.size() == 2);
  CHECK(are_numbered_from(3, rest.events));
  CHECK(rest.end == 5);
  CHECK(rest.dropped == 0);
  CHECK(memory.ring().read(99).events.empty());
}

TEST_CASE("a full ring keeps the newest events but the one whose slot the owner writes next") {
  ring_memory memory;
  for (std::uint64_t number = 0; number < 21; ++number)
    memory.ring().write(numbered(number));
  const auto excerpt = memory.ring().read(2);
  CHECK(excerpt.end == 21);
  CHECK(excerpt.events.size() == 7);
  CHECK(are_numbered_from(14, excerpt.events));
  CHECK(excerpt.dropped == 12);
}

TEST_CASE("an event that its owner is overwriting is discarded") {
  ring_memory memory;
  for (std::uint64_t number = 0; number < 8; ++number)
    memory.ring().write(numbered(number));
  // The owner died after the first word of event 8.
  memory.slots[0][0].store(8);
  const auto excerpt = memory.ring().read(0);
  CHECK(excerpt.end == 8);
  CHECK(excerpt.dropped == 1);
  CHECK(excerpt.events.size() == 7);
  CHECK(are_numbered_from(1, excerpt.events));
}

TEST_CASE("a reader beside the owner sees whole events in order, and counts the others as dropped") {
  constexpr std::uint64_t last = 200'000;
  ring_memory memory;
  std::thread owner([&memory] {
    auto ring = memory.ring();
    for (std::uint64_t number = 0; number < last; ++number)
      ring.write(numbered(number));
  });
  std::uint64_t next = 0, seen = 0, dropped = 0;
  bool sound = true;
  while (next < last) {
    const auto excerpt = memory.ring().read(next);
    sound = sound && are_numbered_from(next + excerpt.dropped, excerpt.events) &&
            excerpt.end == next + excerpt.dropped + excerpt.events.size();
    seen += excerpt.events.size();
    dropped += excerpt.dropped;
    next = excerpt.end;
  }
  owner.join();
  CHECK(sound);
  CHECK(seen + dropped == last);
}
