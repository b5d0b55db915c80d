// Gives this process' sign of life, and looks for those of the others: in the memory that members on one host
// share, and over the links to members on other hosts. It runs on the event loop, which no framework and no
// tensor ever blocks: while it runs the process makes progress. elastic/heartbeat_monitor says who is silent,
// elastic/stuck_rules for how long that is nothing; the member and its workers decide what follows.
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
  std::shared_ptr<shared_member_state> shared; ///< with rank, members and tree
  stuck_rules rules;
  caf::actor post;   ///< takes outbound_to_neighbour
  caf::actor member; ///< takes processes_silent
};

struct heartbeats_state {
  static inline const char* name = "heartbeats";

  explicit heartbeats_state(heartbeats_actor::pointer owner) : self(owner) {}
  void begin(heartbeats_setup setup);

  void hear(const envelope& message);
  void connected();
  void beat();

private:
  void look_at_words();
  void tell(std::int32_t neighbour);
  bool shares_memory_with(std::int32_t rank) const;

  heartbeats_actor::pointer self;
  heartbeats_setup setup_;
  heartbeat_monitor monitor_;
  std::vector<std::int32_t> neighbours_;   ///< at the other ends of links
  std::shared_ptr<heartbeat_words> words_; ///< null until connected, and where no memory is shared
  std::set<std::int32_t> told_;            ///< neighbours that were told of somebody's silence last
  bool some_are_silent_ = false;
};

heartbeats_actor::behavior_type heartbeats(heartbeats_actor::stateful_pointer<heartbeats_state> self,
                                           heartbeats_setup setup);

} // namespace farandole
