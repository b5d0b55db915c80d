// The relay actor: receives the requests of the members below, lets collectives/relay/relay merge them, and sends
// the result up. One for each (generation, set), on every member of the job that has members of the set below it; the
// leader has a negotiator instead.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "actors/event_loop/envelope_actor.hpp"
#include "actors/interfaces/member_watcher.hpp"
#include "actors/interfaces/negotiation.hpp"
#include "collectives/relay/relay.hpp"

namespace farandole {

struct relay_actor_setup {
  farandole::address self;  ///< generation, set, own global rank
  std::int32_t leader = 0;  ///< global rank
  std::int32_t members = 1; ///< of the whole set
  relay_rules rules;
  envelope_actor router;
  member_watcher_actor watcher;
  /// Called when the set's last schedule has come, if this process is no member of the set.
  std::function<void()> ended = {};
};

class relay_actor_state {
public:
  relay_actor_state(relay_actor::pointer self) : self_(self) {}
  relay_actor::behavior_type start(relay_actor_setup setup);

  static inline const char* name = "relay";

private:
  void take(const envelope& message);
  void apply_schedule(const envelope& message);
  void tick(std::chrono::nanoseconds set_for);
  void arm();
  void blame(std::int32_t rank, std::string reason);
  std::chrono::nanoseconds now() const;

  relay_actor::pointer self_;
  relay_actor_setup setup_;
  std::optional<relay> relay_;
  std::optional<std::chrono::nanoseconds> armed_; ///< time of the latest tick; all others are ignored
};

relay_actor::behavior_type relay_behaviour(relay_actor::stateful_pointer<relay_actor_state> self,
                                           relay_actor_setup setup);

} // namespace farandole
