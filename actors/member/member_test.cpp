#include "actors/member/member.hpp"

#include <catch2/catch.hpp>

#include "actors/interfaces/member_watcher.hpp"
#include "actors/process_set/set_tree.hpp"
#include "actors/submission/operation_state_testing.hpp"
#include "tests/world/simulation.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

/// A path connector that keeps the bundles and runs none of them.
path_connector_actor idle_connector(caf::event_based_actor* parent, const set_setup& setup) {
  const auto kept = std::make_shared<std::vector<lane_task_ptr>>();
  setup.ready();
  return caf::actor_cast<path_connector_actor>(
      parent->spawn([kept](caf::event_based_actor*) -> caf::behavior {
        return {[kept](const lane_task_ptr& task) { kept->push_back(task); }, [](const envelope&) {},
                [](const generation_over&) {}};
      }));
}

submission scalar(std::string_view name) {
  submission request;
  request.name = name;
  request.signature.shape = {1};
  return request;
}

} // namespace

TEST_CASE("if the process-set manager fails, the operations of all process sets fail", "[member]") {
  simulation world(1);
  process_set_manager_actor sets;
  member_setup setup;
  setup.shared = std::make_shared<shared_member_state>();
  setup.heartbeats = false;
  for (const auto absent : {setting::fast_path, setting::stall_check_disable})
    REQUIRE_FALSE(
        setup.settings.assign(absent, absent == setting::fast_path ? "0" : "1", setting_source::environment));
  setup.simulate = [&sets](set_setup& pattern) {
    pattern.simulated_connector = [&sets](auto* parent, const set_setup& set, const auto&) {
      sets = set.sets;
      return idle_connector(parent, set);
    };
  };
  const auto shared = setup.shared;
  auto member = caf::actor_cast<caf::actor>(world.system().spawn(member_root, std::move(setup)));
  REQUIRE(world.run_until_quiet());
  caf::anon_send(sets, sets_changed{{{1, 1, false, {0}}}, {}});
  REQUIRE(world.run_until_quiet());
  const auto queue = shared->sets.find(1)->queue;
  std::vector<operation_state_ptr> pending;
  const auto submit = [&](const submission& request) {
    const auto operation = queue->submit(request);
    REQUIRE(operation);
    pending.push_back(*operation);
    REQUIRE(world.run_until_quiet());
  };
  for (const auto* const name : {"a", "b", "c"})
    submit(scalar(name));
  CHECK(pending[1]->now() == phase::claimed);
  CHECK(pending[2]->now() == phase::queued); // two bundles are in progress
  const pair_of_members both({operation::allreduce, 1, true});
  operation_state known;
  known.name = "d";
  known.signature.shape = {2};
  queue->learn(1, known, both.slots[0]);
  auto moved = scalar("d");
  std::vector<float> tensor(2);
  moved.signature.shape = {2};
  moved.input = reinterpret_cast<const std::byte*>(tensor.data());
  moved.output = reinterpret_cast<std::byte*>(tensor.data());
  submit(moved);
  REQUIRE(pending[3]->advance(phase::on_fast_path, phase::moving));

  caf::anon_send_exit(sets, caf::exit_reason::kill); // as after an exception
  REQUIRE(world.run_for(std::chrono::seconds(1)));
  CHECK_FALSE(pending[3]->settled());
  REQUIRE(pending[3]->advance(phase::moving, phase::on_fast_path));
  REQUIRE(world.run_for(std::chrono::seconds(1)));
  for (const auto& operation : pending)
    CHECK(operation->settled());
  const auto later = queue->submit(scalar("e"));
  REQUIRE_FALSE(later);
  CHECK_THAT(later.error().text, Catch::Contains("an actor of this member failed"));

  caf::anon_send_exit(member, caf::exit_reason::user_shutdown);
  member = nullptr;
  sets = nullptr;
  world.run_until_idle();
}
