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
  return static_cast<int>(static_cast<std::uint32_t>(shared.counters(member).placement.load()));
}

cpu_set_t allowed() {
  cpu_set_t cores;
  REQUIRE(sched_getaffinity(0, sizeof cores, &cores) == 0);
  return cores;
}

} // namespace

TEST_CASE("of two members on one core the one with the higher rank moves and keeps its allowed cores") {
  const auto shared = segment_of_two();
  std::thread([&] {
    const auto before = allowed();
    lane_placement first(shared, 0, 2), second(shared, 1, 2);
    cpu_set_t one_core;
    CPU_ZERO(&one_core);
    CPU_SET(sched_getcpu(), &one_core);
    REQUIRE(sched_setaffinity(0, sizeof one_core, &one_core) == 0);
    first.begin(4);
    REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
    // As if another member had been woken on this core.
    shared->counters(0).placement.store(std::uint64_t{5} << 32 | static_cast<std::uint32_t>(sched_getcpu()));
    second.begin(4);
    const auto after = allowed();
    CHECK(CPU_EQUAL(&before, &after));
    if (CPU_COUNT(&before) > 1)
      CHECK(place_of(*shared, 1) != place_of(*shared, 0));
  }).join();
}

TEST_CASE("a single member neither publishes its core nor moves") {
  auto made = shm_segment::create({.generation = 1, .members = 1, .slots = 2, .chunk_bytes = 4096});
  REQUIRE(made);
  const std::shared_ptr<shm_segment> shared = std::move(*made);
  lane_placement member(shared, 0, 4);
  member.begin(4);
  CHECK(shared->counters(0).placement.load() == 0);
}
