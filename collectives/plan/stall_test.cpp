#include "collectives/plan/stall.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;

TEST_CASE("a stall is told by missing rank, with at most six names and the blamed ones marked") {
  std::vector<stall> stalls;
  for (int i = 0; i < 7; ++i)
    stalls.push_back({"t" + std::to_string(i), i < 2 ? 90s : 70s, {3}});
  stalls.push_back({"other", 61s, {1, 3}});
  CHECK(describe(stalls, 80s) == "1: [other]\n3: [t0!, t1!, t2, t3, t4, t5, …]");
  CHECK(describe(std::span(stalls).last(1), 0s) == "1: [other]\n3: [other]");
  CHECK(describe({}, 0s).empty());
}
