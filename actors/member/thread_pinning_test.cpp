#include "actors/member/thread_pinning.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <thread>
#include <vector>

#include "collectives/transport/wait/cpu_affinity.hpp"

namespace farandole {
namespace {

/// What a thread of local rank 0 of 1 may do and has logged after the setting was applied to it.
struct outcome {
  std::vector<int> cores;
  std::vector<std::string> lines;
};

outcome after_pinning(const std::string& list) {
  outcome seen;
  logger log{{.level = log_level::debug, .hide_time = true},
             [&seen](log_level, std::string_view line) { seen.lines.emplace_back(line); }};
  auto values = settings::built_in();
  if (!list.empty())
    REQUIRE_FALSE(values.assign(setting::thread_affinity, list, setting_source::environment));
  member self;
  self.host_name = "node1";
  std::thread([&] {
    pin_calling_thread(values, self, &log);
    seen.cores = cpu_affinity::of_calling_thread().cores();
  }).join();
  return seen;
}

TEST_CASE("a thread is pinned to the core of its local rank") {
  const auto core = cpu_affinity::of_process().cores().back();
  const auto seen = after_pinning(std::to_string(core));
  CHECK(seen.cores == std::vector{core});
  REQUIRE(seen.lines.size() == 1);
  CHECK_THAT(seen.lines[0],
             Catch::StartsWith("[D ") &&
                 Catch::EndsWith("pinned the event loop and the lanes of local rank 0 to core " +
                                 std::to_string(core)));
}

TEST_CASE("a wrong list is logged as an error, and no list is not logged; neither pins a thread") {
  const auto all = cpu_affinity::of_process().cores();
  const auto wrong = after_pinning("0,all");
  CHECK(wrong.cores == all);
  REQUIRE(wrong.lines.size() == 1);
  CHECK_THAT(wrong.lines[0],
             Catch::StartsWith("[E ") && Catch::Contains("so no thread of local rank 0 on node1 is "
                                                         "pinned to a core"));
  const auto none = after_pinning("");
  CHECK(none.cores == all);
  CHECK(none.lines.empty());
}

} // namespace
} // namespace farandole
