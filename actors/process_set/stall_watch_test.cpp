// The stall watch between a negotiator and a set client that the test plays, on virtual time.
#include "actors/process_set/stall_watch.hpp"

#include <catch2/catch.hpp>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/interfaces/generation.hpp"
#include "tests/world/simulation.hpp"

using namespace farandole;
using namespace std::chrono_literals;

namespace {

/// A process set whose negotiator has one waiting tensor, and whose fast path may have another.
class watched_set {
public:
  explicit watched_set(std::chrono::seconds shutdown = 0s) {
    auto& system = world_.system();
    negotiator_ = system.spawn([this](caf::event_based_actor*) -> caf::behavior {
      return {
          [this](stalled_atom, std::chrono::nanoseconds limit) { return list(leader_since, "a", limit); }};
    });
    client_ = system.spawn([this](caf::event_based_actor*) -> caf::behavior {
      return {[this](stalled_atom, std::chrono::nanoseconds limit) { return list(board_since, "b", limit); }};
    });
    member_ = system.spawn([this](caf::event_based_actor*) -> caf::behavior {
      return {[this](const stalls_noticed& event) {
                noticed.push_back({seconds(), event});
              },
              [this](const generation_broken& event) {
                ends.push_back({seconds(), event.reason});
              }};
    });
    stall_watch_setup setup;
    setup.rules.warning = 60s;
    setup.rules.shutdown = shutdown;
    setup.rules.shutdown_setting = "stall shutdown time";
    setup.negotiator = caf::actor_cast<negotiator_actor>(negotiator_);
    setup.client = caf::actor_cast<set_client_actor>(client_);
    setup.member = caf::actor_cast<stall_watcher_actor>(member_);
    setup.set_id = 3;
    begin_ = world_.now();
    watch_ = caf::actor_cast<caf::actor>(system.spawn(stall_watch, setup));
  }
  ~watched_set() {
    end();
    for (auto* actor : {&negotiator_, &client_, &member_}) {
      caf::anon_send_exit(*actor, caf::exit_reason::kill);
      *actor = nullptr;
    }
    world_.run_until_idle();
  }

  void run_until(std::chrono::seconds time) { REQUIRE(world_.run_for(begin_ + time - world_.now())); }
  void end() {
    if (watch_)
      caf::anon_send_exit(watch_, caf::exit_reason::kill);
    watch_ = nullptr;
    world_.run_until_quiet();
  }

  std::optional<std::chrono::seconds> leader_since, board_since; ///< when the tensors began to wait
  std::vector<std::pair<double, stalls_noticed>> noticed;        ///< with the time in seconds
  std::vector<std::pair<double, std::string>> ends;

private:
  double seconds() const { return std::chrono::duration<double>(world_.now() - begin_).count(); }

  stall_list list(std::optional<std::chrono::seconds> since, const std::string& name,
                  std::chrono::nanoseconds limit) const {
    stall_list result;
    if (const auto now = world_.now() - begin_; since && now - *since > limit)
      result.stalls.push_back({name, now - *since, {1}});
    return result;
  }

  farandole::testing::simulation world_{5};
  caf::actor_clock::time_point begin_;
  caf::actor negotiator_, client_, member_, watch_;
};

} // namespace

TEST_CASE("a stall is noticed before the warning time, when it has passed, repeatedly, and at its end",
          "[stall_watch]") {
  watched_set set;
  set.leader_since = 7s;
  set.run_until(130s);
  REQUIRE(set.noticed.size() == 3);
  const auto& [first_time, first] = set.noticed[0];
  CHECK(first.set_id == 3);
  CHECK(first.notice.source == stall_source::leader);
  REQUIRE(first.notice.tensors.size() == 1);
  CHECK(first.notice.tensors[0].name == "a");
  CHECK(first_time > 37);
  CHECK(first_time < 67);
  CHECK(set.noticed[1].first == Approx(67.001)); // the warning time has passed
  CHECK(set.noticed[2].first == Approx(127.001).margin(0.51));
  set.leader_since.reset();
  set.run_until(131s);
  REQUIRE(set.noticed.size() == 4);
  CHECK(set.noticed[3].second.notice == stall_notice{stall_source::leader, {}, 0});
  set.run_until(1000s);
  CHECK(set.noticed.size() == 4);
}

TEST_CASE("the fast path has notices of its own, and the end of the set is noticed, too", "[stall_watch]") {
  watched_set set;
  set.board_since = 0s;
  set.run_until(61s);
  REQUIRE(set.noticed.size() == 2);
  CHECK(set.noticed[1].second.notice.source == stall_source::fast_path);
  CHECK(set.noticed[1].second.notice.tensors[0].waited == 60001ms);
  set.end();
  REQUIRE(set.noticed.size() == 3);
  CHECK(set.noticed[2].second.notice == stall_notice{stall_source::fast_path, {}, 0});
}

TEST_CASE("a tensor that waits for longer than the shutdown time ends the generation", "[stall_watch]") {
  watched_set set(80s);
  set.leader_since = 0s;
  set.run_until(80s);
  CHECK(set.ends.empty());
  set.run_until(81s);
  REQUIRE_FALSE(set.ends.empty());
  CHECK(set.ends[0].first == Approx(80.001));
  CHECK_THAT(set.ends[0].second, Catch::StartsWith("tensors of process set 3 wait for ranks"));
}
