#include "collectives/transport/wait/core_placement.hpp"

#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "collectives/transport/wait/cpu_affinity.hpp"

using namespace farandole;

TEST_CASE("a cgroup's quota is converted to cores, and any other text sets no limit") {
  CHECK(cores_granted("150000 100000\n") == Approx(1.5));
  CHECK(cores_granted("50000 100000") == Approx(0.5));
  CHECK(cores_granted("1 100000") == Approx(0.01));
  for (const char* text : {"max 100000\n", "", " ", "-1 100000", "100000", "100000 0", "cores"})
    CHECK(cores_granted(text) == 0);
}

TEST_CASE("a member leaves a core that lower ranks already fill, for a core that is not full") {
  using cores = std::vector<int>;
  const core_placement last_of_three(3, 2, 4);
  CHECK(last_of_three.one_core_each());
  CHECK(last_of_three.crowd_at(0, cores{0, 1, -1}).too_many);
  CHECK(last_of_three.crowd_at(0, cores{0, 1, -1}).full_cores == cores{0, 1});
  CHECK_FALSE(last_of_three.crowd_at(2, cores{0, 1, 0}).too_many);
  CHECK_FALSE(last_of_three.crowd_at(0, cores{-1, 1, 0}).too_many);
  CHECK_FALSE(core_placement(3, 0, 4).crowd_at(1, cores{0, 1, 1}).too_many); // members of higher rank leave

  const core_placement two_on_each(4, 3, 2.5);
  CHECK_FALSE(two_on_each.one_core_each());
  CHECK_FALSE(two_on_each.crowd_at(0, cores{0, 1, 1, 0}).too_many);
  CHECK(two_on_each.crowd_at(0, cores{0, 1, 1, 0}).full_cores == cores{1});
  CHECK(two_on_each.crowd_at(1, cores{0, 1, 1, 0}).too_many);

  const core_placement sole(1, 0, 4);
  CHECK(sole.alone());
  CHECK_FALSE(sole.crowd_at(0, cores{0}).too_many);
}

TEST_CASE("a thread that moves to another core may use the same cores as before") {
  std::vector<int> before, after;
  std::thread([&] {
    before = cpu_affinity::of_calling_thread().cores();
    move_to_another_core();
    after = cpu_affinity::of_calling_thread().cores();
  }).join();
  CHECK(before == after);
}
