#include "tests/world/set_lane.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "tests/world/simulation.hpp"

namespace farandole::testing {

namespace {

constexpr std::uint64_t lane_stream = 302;

struct set_lane_state {
  std::deque<std::unique_ptr<lane_task>> queue; ///< the first is running
  bool draining = false;
  dice draw{0};
};

/// Whether the root is right: requests and schedules use global ranks, the lane uses places in the set.
bool root_fits(const lane_task& task, std::size_t members) {
  if (task.bundle.operation != operation::broadcast || !task.operations[0])
    return true;
  const auto tensor = std::stoul(task.operations[0]->name.substr(set_play::name(0).size() - 1));
  return task.bundle.root == static_cast<std::int32_t>(tensor % members);
}

} // namespace

path_connector_actor set_lane(caf::event_based_actor* parent, const set_setup& setup,
                              set_setup::bundle_ended ended, set_stage& stage) {
  const auto number = setup.set_state->number;
  const auto rank = setup.shared->rank;
  const auto ranks = setup.ranks();
  const auto place = static_cast<std::int32_t>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
  const address self_address{setup.generation, number, rank};
  auto spawned = parent->spawn([=, &stage](caf::stateful_actor<set_lane_state>* self) {
    self->state.draw = dice(stage.play.options().seed, lane_stream, number, static_cast<std::uint64_t>(rank));
    const auto takes = [self](std::uint64_t limit) {
      return std::chrono::microseconds(5 + self->state.draw.below(limit));
    };
    const auto run_next = [=, &stage] {
      const auto& task = *self->state.queue.front();
      stage.log(number, ranks.size()).ran(place, task, false);
      if (!root_fits(task, ranks.size()))
        stage.problem("rank " + std::to_string(rank) +
                      ": a broadcast has another root than the requested one");
      self->delayed_send(self, takes(200), tick_atom::value);
    };
    path_addresses addresses;
    addresses.rank = rank;
    self->send(setup.router, encode(self_address, addresses));
    return caf::behavior{
        [=, &stage](const envelope& message) {
          auto all = decode_member_path_addresses(message);
          if (!all || all->members.size() != ranks.size())
            return stage.problem("rank " + std::to_string(rank) +
                                 ": the path addresses of another process set arrived");
          self->delayed_send(self, takes(2000), ready_atom::value);
        },
        [setup](ready_atom) { setup.ready(); },
        [=](const lane_task_ptr& task) {
          self->state.queue.push_back(std::move(*task));
          if (self->state.queue.size() == 1)
            run_next();
        },
        [=](tick_atom) {
          auto& queue = self->state.queue;
          const auto done = std::move(queue.front());
          queue.pop_front();
          done->settle({});
          ended(done->bundle.sequence, 0, {});
          if (!queue.empty())
            run_next();
          else if (self->state.draining)
            setup.drained();
        },
        [=](drained_atom) {
          self->state.draining = true;
          if (self->state.queue.empty())
            setup.drained();
        },
        [](const generation_over&) {},
    };
  });
  return caf::actor_cast<path_connector_actor>(spawned);
}

} // namespace farandole::testing
