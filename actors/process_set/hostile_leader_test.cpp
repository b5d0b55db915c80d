// A leader that has the job's secret and sends its members messages that no correct leader sends: the member's root
// learns that the generation cannot go on, and that the leader is at fault.
#include <catch2/catch.hpp>

#include <future>

#include "actors/event_loop/loop.hpp"
#include "actors/interfaces/generation.hpp"
#include "actors/interfaces/heartbeats.hpp"
#include "actors/process_set/path_connector.hpp"
#include "actors/process_set/process_set_manager.hpp"
#include "tests/patience.hpp"
#include "tests/world/simulation.hpp"

using namespace farandole;
using namespace farandole::testing;
using farandole::testing::simulation;
using namespace std::chrono_literals;

namespace {

/// The process-set manager of rank 3 of four on one host; the rank is in none of the sets here.
class manager_bench {
public:
  manager_bench() : world_(1) {
    recorder_ = world_.system().spawn([this](caf::event_based_actor*) -> caf::behavior {
      return {[this](const generation_broken& event) { broken.push_back(event.reason); }};
    });
    shared->rank = 3;
    shared->members.resize(4);
    const std::vector<std::string_view> hosts(4, "a");
    shared->tree = std::make_shared<const relay_tree>(hosts, relay_options{2, 8});
    set_setup pattern;
    pattern.shared = shared;
    pattern.generation = 1;
    pattern.member = caf::actor_cast<member_actor>(recorder_);
    pattern.router = caf::actor_cast<message_router_actor>(recorder_);
    manager_ = world_.system().spawn(process_set_manager, pattern);
  }
  ~manager_bench() {
    caf::anon_send_exit(manager_, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(recorder_, caf::exit_reason::kill);
    manager_ = nullptr;
    recorder_ = nullptr;
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
    caf::anon_send(manager_, message);
    REQUIRE(world_.run_until_quiet());
  }

  simulation world_;
  caf::actor recorder_;
  process_set_manager_actor manager_;
};

} // namespace

TEST_CASE("a process set that starts under a set number already used ends the generation", "[hostile]") {
  manager_bench bench;
  bench.begin(1, 1);
  bench.begin(2, 2);
  REQUIRE(bench.broken.empty());
  SECTION("the number of a running set") {
    bench.begin(2, 3);
  }
  SECTION("the number of a set that was restarted") {
    bench.restart(1, 3);
    REQUIRE(bench.broken.empty());
    bench.begin(1, 3);
  }
  SECTION("the number of another set, in a restart") {
    bench.restart(1, 2);
  }
  REQUIRE(bench.broken.size() == 1);
  CHECK_THAT(bench.broken[0], Catch::Contains("the leader (rank 0) broke the protocol"));
  CHECK(bench.shared->sets.ranks().count(3) == 0);
}

TEST_CASE("path addresses that arrive a second time break the set, and its paths stay unchanged",
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
  REQUIRE(connected.get_future().wait_for(patience) == std::future_status::ready);
  const auto* paths = lane->paths();
  caf::anon_send(tested, encode({1, 0, 0}, all));
  auto told = broken.get_future();
  REQUIRE(told.wait_for(patience) == std::future_status::ready);
  CHECK_THAT(told.get(), Catch::Contains("the leader (rank 0) broke the protocol"));
  CHECK(lane->paths() == paths);
  caf::anon_send_exit(tested, caf::exit_reason::user_shutdown);
  lane->stop();
}
