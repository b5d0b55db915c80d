#include "actors/process_set/path_connector.hpp"

#include <string>
#include <utility>

namespace farandole {

void path_connector_state::begin(path_connector_setup setup) {
  setup_ = std::move(setup);
  // Sockets and UCX workers are opened on the thread that uses them.
  setup_.lane->call([lane = setup_.lane.get(), set = setup_.set, options = setup_.paths, log = setup_.log,
                     me = caf::actor_cast<path_connector_actor>(self), broke = setup_.broke] {
    auto opened = data_paths::open(set, options);
    if (!opened) {
      broke(opened.error());
      return;
    }
    if (const auto remark = (*opened)->remark(); !remark.empty() && log && set.set == 0 && set.rank == 0)
      log->warning(remark);
    auto addresses = (*opened)->introduce();
    lane->use(std::move(*opened));
    caf::anon_send(me, addresses);
  });
}

void path_connector_state::introduce(const path_addresses& addresses) {
  self->send(setup_.router, encode(setup_.self, addresses));
}

// Paths are connected only once: at the second time they would be connecting, or in use.
void path_connector_state::receive_addresses(const envelope& message) {
  if (connecting_)
    return setup_.broke(
        {error_kind::unknown, "the leader (rank " + std::to_string(setup_.leader) +
                                  ") broke the protocol: path addresses came from it a second time"});
  auto all = decode_member_path_addresses(message);
  if (!all || all->members.size() != setup_.set.members.size())
    setup_.broke(
        all ? error{error_kind::unknown, "path addresses of another number of members came from the leader"}
            : all.error());
  else
    connect(std::move(all->members));
}

void path_connector_state::connect(std::vector<path_addresses> all) {
  const auto set = setup_.set_id == 0 ? "the global set" : "process set " + std::to_string(setup_.set_id);
  setup_.lane->call([lane = setup_.lane.get(), all = std::move(all), set,
                     me = caf::actor_cast<path_connector_actor>(self), timeout = setup_.connect_timeout,
                     citation = setup_.connect_citation, connected = setup_.connected, broke = setup_.broke,
                     log = setup_.log] {
    deadline_and_abort deadline{lane->token(), std::chrono::steady_clock::now() + timeout, citation};
    const auto problem =
        lane->paths() ? lane->paths()->connect(all, deadline) : error{error_kind::unknown, "no paths"};
    const auto remark = lane->paths() ? lane->paths()->remark_on_connecting() : std::string{};
    if (!remark.empty() && log)
      log->warning(remark);
    if (problem) {
      broke({problem.kind, "the data paths could not be connected: " + problem.text});
      return;
    }
    if (log)
      log->debug("the data paths of " + set + " are connected: " + lane->paths()->served_operations() +
                 (lane->paths()->fast_path() ? "; the fast path is available" : "; there is no fast path"));
    if (connected)
      connected(lane->paths()->fast_path(), lane->paths()->heartbeats());
    caf::anon_send(me, ready_atom::value);
  });
  connecting_ = true;
  pass_on_bundles();
}

// Bundles may arrive before the path addresses, because other members may be faster.
void path_connector_state::run(const lane_task_ptr& task) {
  if (!passes_on_)
    early_.push_back(task);
  else if (*task)
    setup_.lane->run(std::move(*task));
}

void path_connector_state::pass_on_bundles() {
  passes_on_ = true;
  for (auto& task : std::exchange(early_, {}))
    run(task);
}

// The addresses may never come. The aborted lane fails the bundles that waited for them, and all later ones.
void path_connector_state::end(const error& reason) {
  setup_.lane->abort(reason);
  pass_on_bundles();
}

void path_connector_state::drain() {
  setup_.lane->call([lane = setup_.lane.get(), drained = setup_.drained] {
    lane->end_in_order();
    drained();
  });
}

path_connector_actor::behavior_type
path_connector(path_connector_actor::stateful_pointer<path_connector_state> self,
               path_connector_setup setup) {
  auto& state = self->state;
  state.begin(std::move(setup));
  return {
      [&state](const envelope& message) { state.receive_addresses(message); },
      [&state](const lane_task_ptr& task) { state.run(task); },
      [&state](const generation_over& event) { state.end(event.reason); },
      [&state](drained_atom) { state.drain(); },
      [&state](const path_addresses& addresses) { state.introduce(addresses); },
      [&state](ready_atom) { state.ready(); },
  };
}

} // namespace farandole
