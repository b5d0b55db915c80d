// The actors of one process set on one member, under one supervisor:
// - on the leader of the job, which leads every set: the negotiator, the fusion scheduler and the address exchange;
// - on a relay with members of the set below it: the relay actor;
// - on every member of the set: the path connector and the set client.
// If one of them fails, all of them end (all-for-one). The tree of the global set is the tree of the generation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/event_loop/log.hpp"
#include "actors/event_loop/supervision.hpp"
#include "actors/interfaces/lane.hpp"
#include "actors/interfaces/member.hpp"
#include "actors/interfaces/message_router.hpp"
#include "actors/interfaces/process_sets.hpp"
#include "actors/process_set/shared_state.hpp"
#include "messages/settings/settings.hpp"

namespace farandole {

struct set_actors;

struct set_setup {
  std::shared_ptr<shared_member_state> shared; ///< with rank and members of the job
  std::shared_ptr<shared_set_state> set_state; ///< with number, id and ranks; gets its queue and lane here
  std::uint64_t generation = 0;
  farandole::settings settings = farandole::settings::built_in(); ///< the job's values
  std::string secret;
  message_router_actor router;
  member_actor member;
  process_set_manager_actor sets; ///< of the global set: is told of changes of the process sets
  logger* log = nullptr;

  std::function<void()> ready; ///< called when the paths of this member are connected
  std::function<void()> ended; ///< see set_progressed; empty for the global set, whose end the member is told
  std::function<void()> settled;    ///< see set_progressed
  std::function<void()> drained;    ///< see set_progressed; called on the lane's thread
  std::function<void(error)> broke; ///< called when a path of this member broke; any thread

  /// Called when the bundle of this number and size has ended, with its error if it failed.
  using bundle_ended = std::function<void(std::uint64_t sequence, std::uint64_t bytes, const error& reason)>;
  /// Replaces the path connector in the simulated world, which has no lane thread and no data path.
  std::function<path_connector_actor(caf::event_based_actor* parent, const set_setup& setup,
                                     bundle_ended ended)>
      simulated_connector = {};

  /// Global ranks of all members.
  std::vector<std::int32_t> ranks() const;
  /// Whether this process is a member of the set, leads it, or forwards the requests of other ranks.
  bool takes_part() const;
  bool leads() const;
  bool relays() const;
};

/// The specification for supervisor(). `started` is called in the supervisor's context when the last child runs.
supervisor_spec set_tree(const set_setup& setup, std::function<void(const set_actors&)> started);

} // namespace farandole
