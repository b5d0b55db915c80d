#include "collectives/transport/wait/cpu_affinity.hpp"

#include <algorithm>
#include <cerrno>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "collectives/transport/wait/core_placement.hpp"

using namespace farandole;

namespace {

/// Runs `action` on a thread of its own, whose affinity ends with it.
template <class Action>
void on_thread(Action action) {
  std::thread(std::move(action)).join();
}

} // namespace

TEST_CASE("a thread that is pinned to one core, and each thread that it starts, may use that core only") {
  const auto cores = cpu_affinity::of_process().cores();
  REQUIRE_FALSE(cores.empty());
  int problem = -1;
  std::vector<int> own, of_child;
  on_thread([&] {
    problem = cpu_affinity::of_core(cores.back()).apply();
    own = cpu_affinity::of_calling_thread().cores();
    on_thread([&] { of_child = cpu_affinity::of_calling_thread().cores(); });
  });
  CHECK(problem == 0);
  CHECK(own == std::vector{cores.back()});
  CHECK(of_child == std::vector{cores.back()});
  CHECK(cpu_affinity::of_process().cores() == cores);
}

TEST_CASE("a pinned thread is not moved, and does not change how many cores the process can use") {
  const auto usable = usable_cores();
  std::vector<int> own;
  double usable_when_pinned = 0;
  on_thread([&] {
    const auto core = cpu_affinity::of_process().cores().front();
    cpu_affinity::of_core(core).apply();
    move_to_another_core();
    move_to_another_core(std::vector{core});
    own = cpu_affinity::of_calling_thread().cores();
    usable_when_pinned = usable_cores();
  });
  CHECK(own == std::vector{cpu_affinity::of_process().cores().front()});
  CHECK(usable_when_pinned == usable);
  CHECK(usable <= cpu_affinity::of_process().count());
}

TEST_CASE("a core that the machine does not have cannot be applied") {
  int problem = 0;
  on_thread([&] { problem = cpu_affinity::of_core(100'000).apply(); });
  CHECK(problem == EINVAL);
}

TEST_CASE("a core that was removed is no longer in the mask") {
  auto cores = cpu_affinity::of_core(70);
  CHECK(cores.count() == 1);
  cores.remove(3);
  CHECK(cores.cores() == std::vector{70});
  cores.remove(70);
  CHECK(cores.count() == 0);
}
