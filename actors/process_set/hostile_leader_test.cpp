// A leader that has the job's secret and tells its members what no leader tells: the member's root hears that
// the generation cannot go on, and that the leader is at fault.
#include <catch2/catch.hpp>

#include <future>

#include "actors/event_loop/loop.hpp"
#include "actors/interfaces/generation.hpp"
#include "actors/interfaces/heartbeats.hpp"
#include "actors/process_set/path_connector.hpp"
#include "actors/process_set/process_set_manager.hpp"
#include "tests/world/simulation.hpp"

using namespace farandole;
using farandole::testing::simulation;
using namespace std::chrono_literals;

namespace {

/// Rank 3 of four on one host, which is in none of the sets here.
class keeper_bench {
public:
  keeper_bench() : world_(1) {
    ear_ = world_.system().spawn([this](caf::event_based_actor*) -> caf::behavior {
      return {[this](const generation_broken& event) { broken.push_back(event.reason); }};
    });
    shared->rank = 3;
    shared->members.resize(4);
    const std::vector<std::string_view> hosts(4, "a");
    shared->tree = std::make_shared<const relay_tree>(hosts, relay_options{2, 8});
    set_setup pattern;
    pattern.shared = shared;
    pattern.generation = 1;
    pattern.member = caf::actor_cast<member_actor>(ear_);
    pattern.router = caf::actor_cast<message_router_actor>(ear_);
    keeper_ = world_.system().spawn(process_set_manager, pattern);
  }
  ~keeper_bench() {
    caf::anon_send_exit(keeper_, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(ear_, caf::exit_reason::kill);
    keeper_ = nullptr;
    ear_ = nullptr;
    world_.run_until_idle();
  }

  void begin(std::uint32_t number, std::uint32_t id) {
    tell(sets_changed{{{number, id, false, {0, 1}}}, {}});
  }
  void restart(std::uint32_t ended, std::uint32_t begins) {
    set_restart set_to_restart;
    set_to_restart.ended = ended;
    set_to_restart.begins = set_event{begins, 1, false, {0, 1}};
    tell(sets_restarted{{set_to_restart}});
  }

  std::shared_ptr<shared_member_state> shared = std::make_shared<shared_member_state>();
  std::vector<std::string> broken;

private:
  template <class Message>
  void tell(const Message& message) {
    caf::anon_send(keeper_, message);
    REQUIRE(world_.run_until_quiet());
  }

  simulation world_;
  caf::actor ear_;
  process_set_manager_actor keeper_;
};

} // namespace

TEST_CASE("a process set that starts by a number that has been used ends the generation", "[hostile]") {
  keeper_bench keeper_bench;
  keeper_bench.begin(1, 1);
  keeper_bench.begin(2, 2);
  REQUIRE(keeper_bench.broken.empty());
  SECTION("of a set that runs") {
    keeper_bench.begin(2, 3);
  }
  SECTION("of a set that has started anew") {
    keeper_bench.restart(1, 3);
    REQUIRE(keeper_bench.broken.empty());
    keeper_bench.begin(1, 3);
  }
  SECTION("by starting anew") {
    keeper_bench.restart(1, 2);
  }
  REQUIRE(keeper_bench.broken.size() == 1);
  CHECK_THAT(keeper_bench.broken[0], Catch::Contains("the leader (rank 0) broke the protocol"));
  CHECK(keeper_bench.shared->sets.ranks().count(3) == 0);
}

TEST_CASE("path addresses that come a second time break the set, and the paths stay as they are",
          "[hostile]") {
  loop_system system;
  caf::scoped_actor router(system.get());
  lane_thread::wiring wiring;
  wiring.name = "lane";
  path_connector_setup setup;
  setup.set.generation = 1;
  setup.set.members.resize(1);
  setup.self = {1, 0, 0};
  setup.router = caf::actor_cast<message_router_actor>(router);
  setup.connect_timeout = 1min;
  setup.lane = std::make_shared<lane_thread>(std::move(wiring));
  std::promise<void> connected;
  std::promise<std::string> broken;
  setup.ready = [&] { connected.set_value(); };
  setup.broke = [&](const error& reason) { broken.set_value(reason.text); };
  const auto lane = setup.lane;
  const auto tested = system.get().spawn(path_connector, std::move(setup));

  member_path_addresses all;
  router->receive([&](const envelope& own) { all.members.push_back(*decode_path_addresses(own)); });
  caf::anon_send(tested, encode({1, 0, 0}, all));
  REQUIRE(connected.get_future().wait_for(30s) == std::future_status::ready);
  const auto* paths = lane->paths();
  caf::anon_send(tested, encode({1, 0, 0}, all));
  auto told = broken.get_future();
  REQUIRE(told.wait_for(30s) == std::future_status::ready);
  CHECK_THAT(told.get(), Catch::Contains("the leader (rank 0) broke the protocol"));
  CHECK(lane->paths() == paths);
  caf::anon_send_exit(tested, caf::exit_reason::user_shutdown);
  lane->stop();
}
