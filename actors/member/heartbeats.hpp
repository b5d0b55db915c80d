// The failure detector of a member. It sends heartbeats of this process and observes those of the others: in the
// memory that members of one host share, and over links to members of other hosts. It runs on the event loop, which
// no framework and no data transfer ever blocks, so a heartbeat shows that the process makes progress.
// elastic/heartbeat_monitor determines which members are silent, and elastic/stuck_rules which silences are
// tolerated. The member and its set clients decide the consequences.
// By the same links it measures the clock of the member above this one in the tree of relays, if that is on another host
// (elastic/clock_exchange), and puts the result into the event record.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "actors/event_loop/clock.hpp"
#include "actors/interfaces/heartbeats.hpp"
#include "actors/process_set/shared_state.hpp"
#include "elastic/clock_exchange.hpp"
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
  void receive_clock(const envelope& message);
  void connected();
  void beat();

private:
  void look_at_words();
  void tell(std::int32_t neighbour);
  bool shares_memory_with(std::int32_t rank) const;
  void measure_clock();
  void send_clock(std::int32_t neighbour, const clock_reading& reading);
  clock_exchange::time time() const { return now(self).time_since_epoch(); }

  heartbeats_actor::pointer self;
  heartbeats_setup setup_;
  heartbeat_monitor monitor_;
  std::vector<std::int32_t> neighbours_;   ///< ranks at the other ends of links
  std::shared_ptr<heartbeat_words> words_; ///< null until connected, or if this host has no shared memory
  std::set<std::int32_t> notified_;        ///< neighbours whose last message reported silent members
  bool some_are_silent_ = false;
  std::int32_t above_ = -1;             ///< rank of the member above this one; -1: none
  clock_exchange clock_;                ///< of that member
  instant next_round_ = instant::max(); ///< when to measure that clock; max: not connected, or on this host
};

heartbeats_actor::behavior_type heartbeats(heartbeats_actor::stateful_pointer<heartbeats_state> self,
                                           heartbeats_setup setup);

} // namespace farandole
