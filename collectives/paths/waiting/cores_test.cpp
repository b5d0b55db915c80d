#include "collectives/paths/waiting/cores.hpp"

#include <sched.h>

#include <catch2/catch.hpp>
#include <thread>

using namespace farandole;

TEST_CASE("a cgroup's quota is read as cores, and anything else sets no limit") {
  CHECK(cores_granted("150000 100000\n") == Approx(1.5));
  CHECK(cores_granted("50000 100000") == Approx(0.5));
  CHECK(cores_granted("1 100000") == Approx(0.01));
  for (const char* text : {"max 100000\n", "", " ", "-1 100000", "100000", "100000 0", "cores"})
    CHECK(cores_granted(text) == 0);
}

TEST_CASE("some core can be used") {
  CHECK(usable_cores() > 0);
}

TEST_CASE("a thread that moves to another core may use the same cores as before") {
  std::thread([] {
    cpu_set_t before, after;
    REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
    move_to_another_core();
    REQUIRE(sched_getaffinity(0, sizeof after, &after) == 0);
    CHECK(CPU_EQUAL(&before, &after));

    cpu_set_t single;
    CPU_ZERO(&single);
    CPU_SET(sched_getcpu(), &single);
    REQUIRE(sched_setaffinity(0, sizeof single, &single) == 0);
    move_to_another_core();
    REQUIRE(sched_getaffinity(0, sizeof after, &after) == 0);
    CHECK(CPU_EQUAL(&single, &after));
  }).join();
}
