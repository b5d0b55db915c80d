// Elastic jobs whose members send heartbeats, and in which one process is stopped.
#include "tests/world/elastic_scenarios_testing.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

namespace {

elastic_options with_heartbeats(bool one_machine) {
  auto options = calm(3);
  options.one_machine = one_machine;
  options.stops_processes = true;
  options.heartbeats = true;
  options.operation_timeout = 8s;
  return options;
}

/// Stops slot 1 in generation 1 for `lasts`. `lost` and `next` are the times from the stop until the
/// rendezvous learns of the loss and until the next generation begins.
struct stop_story {
  std::chrono::nanoseconds lasts;
  std::chrono::nanoseconds stopped{}, lost{}, next{};

  elastic_report play(const elastic_options& options) {
    auto stop = once(1, a_request, [this](elastic_world& world, std::int32_t, std::int32_t) {
      world.after(1s, [this, &world] {
        stopped = world.now();
        world.stop(1, lasts);
      });
    });
    auto hears = once(1, a_loss, [this](elastic_world& world, std::int32_t, std::int32_t) {
      lost = world.now() - stopped;
    });
    auto starts = once(2, a_welcome, [this](elastic_world& world, std::int32_t, std::int32_t) {
      next = world.now() - stopped;
    });
    return played(options, [=](elastic_world& world, std::int32_t from, std::int32_t to,
                               const envelope& message) mutable {
      for (auto* entry : {&stop, &hears, &starts})
        (*entry)(world, from, to, message);
    });
  }
};

} // namespace

TEST_CASE(
    "elastic scenario: operations that wait for a stopped member time out with an error that names it") {
  auto options = with_heartbeats(false);
  // The operations wait on the fast path, at the leader, or in a lane.
  std::string part = "operations wait for rank 1 on host-b, which has made no progress for ";
  SECTION("on the fast path") {
    options.one_machine = true;
  }
  SECTION("at the leader") {}
  SECTION("in a lane") {
    options.inline_tensors = false;
    part = "rank 1 on host-b has made no progress for 8";
  }
  stop_story story{30s};
  const auto report = story.play(options);
  CHECK(report.code == 0);
  CHECK(has_line(report, part));
  CHECK(has_line(report, "rank 1 is lost in generation 1: it has made no progress for"));
  CHECK(story.lost > 8s);
  CHECK(story.lost < 12s);
  // The next generation waits for the stopped member.
  CHECK(story.next > 30s);
  CHECK(report.generations == 2);
  CHECK(report.last_slots == slots{0, 1, 2});
}

TEST_CASE("elastic scenario: a member that is stopped for longer than the stuck timeout is lost") {
  const bool one_machine = GENERATE(false, true);
  auto options = with_heartbeats(one_machine);
  options.rounds = 400;
  options.stuck_timeout = 3s;
  stop_story story{30s};
  const auto report = story.play(options);
  CHECK(report.code == 0);
  CHECK(has_line(report, "rank 1 is lost in generation 1: it has made no progress for 3"));
  CHECK(story.lost > 3s - 400ms); // counted from its last heartbeat, which is at most one period older
  CHECK(story.lost < 5s);
  CHECK(story.next - story.lost < 1s);
  CHECK(has_line(report, "generation 2 of slots 0 2,"));
  // The stopped member rejoins later as a new member.
  CHECK(report.last_slots == slots{0, 2, 1});
}

TEST_CASE("elastic scenario: a stopped member is lost after the stuck timeout even if no operation waits") {
  auto options = with_heartbeats(GENERATE(false, true));
  options.rounds = 2;
  options.think_us = 300'000'000;
  options.stuck_timeout = 3s;
  stop_story story{30s};
  const auto report = story.play(options);
  CHECK(report.code == 0);
  CHECK(story.lost > 3s - 400ms); // counted from its last heartbeat, which is at most one period older
  CHECK(story.lost < 5s);
}

TEST_CASE("elastic scenario: the job waits for a member that is stopped for less than its timeouts") {
  auto options = with_heartbeats(GENERATE(false, true));
  options.stuck_timeout = 6s;
  stop_story story{5s};
  const auto report = story.play(options);
  CHECK(report.code == 0);
  CHECK(report.generations == 1);
}
