#include "collectives/paths/cores.hpp"

#include <catch2/catch.hpp>

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
