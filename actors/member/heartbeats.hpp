// The failure detector of a member. It sends heartbeats of this process and observes those of the others: in the
// memory that members of one host share, and over links to members of other hosts. It runs on the event loop, which
// no framework and no data transfer ever blocks, so a heartbeat shows that the process makes progress.
// elastic/heartbeat_monitor determines which members are silent, and elastic/stuck_rules which silences are
// tolerated. The member and its set clients decide the consequences.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "actors/interfaces/heartbeats.hpp"
#include "actors/process_set/shared_state.hpp"
#include "elastic/heartbeat_monitor.hpp"
#include "elastic/stuck_rules.hpp"

namespace farandole {

struct heartbeats_setup {
  std::shared_ptr<shared_member_state> shared; ///< rank, members and tree must be set
  stuck_rules rules;
  caf::actor router; ///< the message router; receives neighbour_message
  caf::actor member; ///< receives processes_silent
};

struct heartbeats_state {
  static inline const char* name = "heartbeats";

  explicit heartbeats_state(heartbeats_actor::pointer owner) : self(owner) {}
  void begin(heartbeats_setup setup);

  void receive_heartbeat(const envelope& message);
  void connected();
  void beat();

private:
  void look_at_words();
  void tell(std::int32_t neighbour);
  bool shares_memory_with(std::int32_t rank) const;

  heartbeats_actor::pointer self;
  heartbeats_setup setup_;
  heartbeat_monitor monitor_;
  std::vector<std::int32_t> neighbours_;   ///< ranks at the other ends of links
  std::shared_ptr<heartbeat_words> words_; ///< null until connected, or if this host has no shared memory
  std::set<std::int32_t> notified_;        ///< neighbours whose last message reported silent members
  bool some_are_silent_ = false;
};

heartbeats_actor::behavior_type heartbeats(heartbeats_actor::stateful_pointer<heartbeats_state> self,
                                           heartbeats_setup setup);

} // namespace farandole
