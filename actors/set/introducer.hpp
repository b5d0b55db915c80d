// Gathers how the data paths of a process set's members can be reached and, once all have told, tells
// everyone of them. One for each set, on the leader, who need not be a member.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "actors/interfaces/member_watcher.hpp"
#include "actors/kit/envelope_actor.hpp"
#include "messages/membership.hpp"

namespace farandole {

struct introducer_setup {
  farandole::address self;
  std::vector<std::int32_t> ranks; ///< global, of all members of the set
  envelope_actor post;
  member_watcher_actor watcher; ///< hears of members that send what cannot be
};

class introducer_state {
public:
  explicit introducer_state(envelope_actor::pointer owner) : self_(owner) {}
  envelope_actor::behavior_type start(introducer_setup how);

  static inline const char* name = "introducer";

private:
  void take(const envelope& message);
  void tell_all();

  envelope_actor::pointer self_;
  introducer_setup setup_;
  std::vector<std::optional<introduction>> gathered_; ///< by position in the set
  std::size_t missing_ = 0;
};

/// Messages of another generation or set are ignored, as by the negotiator.
envelope_actor::behavior_type introducer(envelope_actor::stateful_pointer<introducer_state> self,
                                         introducer_setup how);

} // namespace farandole
