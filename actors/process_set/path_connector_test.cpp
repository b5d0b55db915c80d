// Bundles that reach the path connector of a set whose paths are never connected.
#include <catch2/catch.hpp>

#include <array>
#include <chrono>
#include <future>
#include <memory>
#include <utility>

#include "actors/event_loop/loop.hpp"
#include "actors/process_set/path_connector.hpp"
#include "tests/patience.hpp"

using namespace farandole;

namespace {

lane_task_ptr bundle_of(const operation_state_ptr& operation) {
  auto task = std::make_unique<lane_task>();
  task->operations.push_back(operation);
  return std::make_shared<std::unique_ptr<lane_task>>(std::move(task));
}

} // namespace

TEST_CASE("the end of a generation fails the bundles that wait for the addresses of the other members") {
  loop_system system;
  caf::scoped_actor router(system.get());
  lane_thread::wiring wiring;
  wiring.name = "lane";
  wiring.finished = [](std::uint64_t, std::uint64_t, const error&) {};
  path_connector_setup setup;
  setup.set.generation = 1;
  setup.set.members.resize(2);
  setup.self = {1, 0, 0};
  setup.router = caf::actor_cast<envelope_actor>(router);
  setup.lane = std::make_shared<lane_thread>(std::move(wiring));
  const auto lane = setup.lane;
  const auto tested = system.get().spawn(path_connector, std::move(setup));

  const auto early = operation_state_ptr::make();
  const auto late = operation_state_ptr::make();
  std::array<std::promise<void>, 2> settled;
  early->on_settled([&] { settled[0].set_value(); });
  late->on_settled([&] { settled[1].set_value(); });
  caf::anon_send(tested, bundle_of(early));
  caf::anon_send(tested, generation_over{{error_kind::disconnected, "rank 1 was lost"}});
  caf::anon_send(tested, bundle_of(late));
  for (auto& promise : settled)
    CHECK(promise.get_future().wait_for(farandole::testing::patience) == std::future_status::ready);
  CHECK(early->problem.text == "rank 1 was lost");
  CHECK(late->problem.text == "rank 1 was lost");
  caf::anon_send_exit(tested, caf::exit_reason::user_shutdown);
  lane->stop();
}
