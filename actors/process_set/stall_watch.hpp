// Looks periodically for operations of one process set that wait for ranks which have not submitted them, and logs a
// warning. An operation that waits for longer than the shutdown time ends the generation. The watch asks the
// negotiator about the operations that go through the leader, and the set client of this member about those on the
// fast path. One for each set on each member, unless the stall check is off.
#pragma once

#include <chrono>
#include <string>

#include "actors/event_loop/log.hpp"
#include "actors/interfaces/negotiation.hpp"
#include "actors/interfaces/set_client.hpp"
#include "collectives/negotiation/stall.hpp"

namespace farandole {

struct stall_watch_setup {
  stall_rules rules;
  negotiator_actor negotiator;     ///< null where another member leads
  set_client_actor client;         ///< null where this process is not a member of the set
  set_client_watcher_actor member; ///< is told when an operation has waited for too long
  logger* log = nullptr;
};

struct stall_watch_state {
  static inline const char* name = "stall watch";

  explicit stall_watch_state(stall_watch_actor::pointer owner) : self(owner) {}
  void begin(stall_watch_setup setup);
  void look();

private:
  void judge(const stall_list& waiting);

  stall_watch_actor::pointer self;
  stall_watch_setup setup_;
};

stall_watch_actor::behavior_type stall_watch(stall_watch_actor::stateful_pointer<stall_watch_state> self,
                                             stall_watch_setup setup);

} // namespace farandole
