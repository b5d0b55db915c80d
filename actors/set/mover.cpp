#include "actors/set/mover.hpp"

#include <utility>

namespace farandole {

void mover_state::begin(mover_setup how) {
  setup_ = std::move(how);
  // Sockets and UCX workers are opened on the thread that uses them.
  setup_.lane->call([lane = setup_.lane.get(), set = setup_.set, options = setup_.paths, log = setup_.log,
                     me = caf::actor_cast<mover_actor>(self), broke = setup_.broke] {
    auto opened = data_paths::open(set, options);
    if (!opened) {
      broke(opened.error());
      return;
    }
    if (const auto remark = (*opened)->remark(); !remark.empty() && log && set.set == 0 && set.rank == 0)
      log->warning(remark);
    auto mine = (*opened)->introduce();
    lane->use(std::move(*opened));
    caf::anon_send(me, mine);
  });
}

void mover_state::introduce(const introduction& mine) {
  self->send(setup_.post, encode(setup_.self, mine));
}

// Paths are connected once: a second time they would be under way, or in use.
void mover_state::hear(const envelope& message) {
  if (connecting_)
    return setup_.broke(
        {error_kind::unknown, "the leader (rank " + std::to_string(setup_.leader) +
                                  ") broke the protocol: introductions came from it a second time"});
  auto all = decode_introductions(message);
  if (!all || all->members.size() != setup_.set.members.size())
    setup_.broke(
        all ? error{error_kind::unknown, "introductions of another number of members came from the leader"}
            : all.error());
  else
    connect(std::move(all->members));
}

void mover_state::connect(std::vector<introduction> all) {
  setup_.lane->call([lane = setup_.lane.get(), all = std::move(all), me = caf::actor_cast<mover_actor>(self),
                     timeout = setup_.connect_timeout, citation = setup_.connect_citation,
                     connected = setup_.connected, broke = setup_.broke, log = setup_.log] {
    limits until{lane->token(), std::chrono::steady_clock::now() + timeout, citation};
    const auto problem =
        lane->paths() ? lane->paths()->connect(all, until) : error{error_kind::unknown, "no paths"};
    const auto remark = lane->paths() ? lane->paths()->remark_on_connecting() : std::string{};
    if (!remark.empty() && log)
      log->warning(remark);
    if (problem) {
      broke({problem.kind, "the data paths could not be connected: " + problem.text});
      return;
    }
    if (connected)
      connected(lane->paths()->board(), lane->paths()->heartbeats());
    caf::anon_send(me, ready_atom::value);
  });
  connecting_ = true;
  for (auto& job : std::exchange(early_, {}))
    run(job);
}

// The other members may be quick: what they are ready for can come before the introductions.
void mover_state::run(const lane_job_ptr& job) {
  if (!connecting_)
    early_.push_back(job);
  else if (*job)
    setup_.lane->run(std::move(*job));
}

void mover_state::end(const error& why) {
  setup_.lane->abort(why);
}

void mover_state::drain() {
  setup_.lane->call(setup_.drained);
}

mover_actor::behavior_type mover(mover_actor::stateful_pointer<mover_state> self, mover_setup how) {
  auto& state = self->state;
  state.begin(std::move(how));
  return {
      [&state](const envelope& message) { state.hear(message); },
      [&state](const lane_job_ptr& job) { state.run(job); },
      [&state](const generation_over& what) { state.end(what.why); },
      [&state](drained_atom) { state.drain(); },
      [&state](const introduction& mine) { state.introduce(mine); },
      [&state](ready_atom) { state.ready(); },
  };
}

} // namespace farandole
