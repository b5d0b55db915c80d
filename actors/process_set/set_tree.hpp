// The actors of one process set on one member, as a tree under one supervisor: on the leader of the job, who
// leads every set, the negotiator, the fusion scheduler and the address exchange; on a relay above members of the
// set the relay actor; on every member of the set the path connector and the worker. They stand and fall together
// (all-for-one). The global set's tree is the generation's.
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
  std::shared_ptr<shared_set_state> place;     ///< with number, id and ranks; gets its door and its lane here
  std::uint64_t generation = 0;
  farandole::settings settings = farandole::settings::built_in(); ///< the job's values
  std::string secret;
  message_router_actor post;
  member_actor member;
  process_set_manager_actor sets; ///< of the global set: hears of changes
  logger* log = nullptr;

  std::function<void()> ready;      ///< the paths here are connected
  std::function<void()> ended;      ///< see set_told; of the global set the member hears by itself
  std::function<void()> settled;    ///< see set_told
  std::function<void()> drained;    ///< see set_told; from the lane's thread
  std::function<void(error)> broke; ///< a path here broke; from any thread

  /// A bundle of this number and size has ended so.
  using bundle_ended = std::function<void(std::uint64_t sequence, std::uint64_t bytes, const error& reason)>;
  /// Makes the path connector where there is to be no lane thread and no data path: in the simulated world.
  std::function<path_connector_actor(caf::event_based_actor* parent, const set_setup& setup,
                                     bundle_ended ended)>
      simulated_connector = {};

  /// Global ranks of all members.
  std::vector<std::int32_t> ranks() const;
  /// Whether this process is a member, whether it leads, and whether it speaks for others.
  bool takes_part() const;
  bool leads() const;
  bool relays() const;
};

/// What to give to supervisor(). `started` is called in the supervisor's context when the last child runs.
supervisor_spec set_tree(const set_setup& setup, std::function<void(const set_actors&)> started);

} // namespace farandole
