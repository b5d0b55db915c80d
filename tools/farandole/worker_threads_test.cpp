#include "tools/farandole/worker_threads.hpp"

#include <catch2/catch.hpp>

#include <sched.h>

using namespace farandole;

TEST_CASE("no more cores are usable than the affinity mask has", "[cores]") {
  cpu_set_t before;
  REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
  CHECK(whole_usable_cores() >= 1);
  CHECK(whole_usable_cores() <= CPU_COUNT(&before));
  cpu_set_t single;
  CPU_ZERO(&single);
  for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&single) == 0; ++core)
    if (CPU_ISSET(core, &before))
      CPU_SET(core, &single);
  REQUIRE(::sched_setaffinity(0, sizeof single, &single) == 0);
  CHECK(whole_usable_cores() == 1);
  REQUIRE(::sched_setaffinity(0, sizeof before, &before) == 0);
}

TEST_CASE("cores are divided among workers, and each worker gets one thread at least", "[cores]") {
  CHECK(threads_of_each(8, 2) == 4);
  CHECK(threads_of_each(8, 3) == 2);
  CHECK(threads_of_each(2, 4) == 1);
}

TEST_CASE("a notice is given if workers outnumber cores and OMP_NUM_THREADS is not set", "[cores]") {
  CHECK(crowding_notice(2, 4, false).starts_with("4 workers share 2 cores, and OMP_NUM_THREADS is not set"));
  CHECK(crowding_notice(1, 2, false).starts_with("2 workers share 1 core,"));
  CHECK(crowding_notice(2, 4, true).empty());
  CHECK(crowding_notice(4, 4, false).empty());
}
