#include "collectives/transport/shm/lane_placement.hpp"

#include <sched.h>

#include <catch2/catch.hpp>
#include <thread>

using namespace farandole;

namespace {

std::shared_ptr<shm_segment> segment_of_two() {
  auto made = shm_segment::create({.generation = 1, .members = 2, .slots = 2, .chunk_bytes = 4096});
  REQUIRE(made);
  return std::move(*made);
}

int place_of(shm_segment& shared, std::uint32_t member) {
  return static_cast<int>(static_cast<std::uint32_t>(shared.counters(member).place.load()));
}

cpu_set_t allowed() {
  cpu_set_t cores;
  REQUIRE(sched_getaffinity(0, sizeof cores, &cores) == 0);
  return cores;
}

} // namespace

TEST_CASE("of two members on one core the one of higher rank moves, and may go on everywhere") {
  const auto shared = segment_of_two();
  std::thread([&] {
    const auto before = allowed();
    lane_placement first(shared, 0, 2), second(shared, 1, 2);
    cpu_set_t cpu_set_t;
    CPU_ZERO(&cpu_set_t);
    CPU_SET(sched_getcpu(), &cpu_set_t);
    REQUIRE(sched_setaffinity(0, sizeof cpu_set_t, &cpu_set_t) == 0);
    first.begin(4);
    REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
    // As another member that was woken here would say.
    shared->counters(0).place.store(std::uint64_t{5} << 32 | static_cast<std::uint32_t>(sched_getcpu()));
    second.begin(4);
    const auto after = allowed();
    CHECK(CPU_EQUAL(&before, &after));
    if (CPU_COUNT(&before) > 1)
      CHECK(place_of(*shared, 1) != place_of(*shared, 0));
  }).join();
}

TEST_CASE("who is alone has nobody to make room for") {
  auto made = shm_segment::create({.generation = 1, .members = 1, .slots = 2, .chunk_bytes = 4096});
  REQUIRE(made);
  const std::shared_ptr<shm_segment> shared = std::move(*made);
  lane_placement member(shared, 0, 4);
  member.begin(4);
  CHECK(shared->counters(0).place.load() == 0);
}
