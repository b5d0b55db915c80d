// Who is in the job, since which generation, with which rank. The rendezvous feeds in what it hears and does
// what comes out. A generation starts when every slot has said hello and ends when a member is lost or all
// have left; then the slots may say hello again. Plain decisions: no sockets, no clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "messages/membership.hpp"

namespace farandole {

/// Names one way to reach a member (a link); chosen by the caller, never reused.
using route = std::uint64_t;

/// What to tell whom.
struct membership_decision {
  struct refusal {
    route to;
    std::string reason;
  };
  struct admission {
    route to;
    farandole::welcome welcome;
  };
  struct notice {
    route to;
    farandole::lost lost;
  };
  std::vector<refusal> refusals;
  std::vector<admission> admissions;
  std::vector<notice> notices;
};

class membership {
public:
  membership(std::int32_t size, std::uint64_t epoch);

  /// A member asks to be in the next generation. Refused with the reason when its wire version, size or slot
  /// cannot be, when its slot is taken by another process, or when some slot has ended for good, so that no
  /// generation can come any more.
  membership_decision join(route from, const hello& request);

  /// A member leaves in order.
  membership_decision leave(route from, std::uint64_t generation);

  /// A link ended. A loss unless the member had left.
  membership_decision disconnect(route from, const std::string& reason);

  /// The process of a slot has ended, for good. A loss unless its member had left.
  membership_decision exit(std::int32_t slot, const std::string& reason);

  /// A member reports that `what.rank` (itself, or another whose link it has lost) cannot be reached or
  /// cannot go on. A loss unless that one had left, or the reporter is no member of that generation.
  membership_decision report(route from, const lost& what);

  std::uint64_t generation() const { return generation_; }
  bool running() const { return running_; }
  /// Slots that have not said hello for the next generation, for people: "2, 3".
  std::string missing() const;

private:
  struct seat {
    std::optional<route> link;
    hello announced;
    bool in_generation = false; ///< has not left since the generation began
    bool ended = false;         ///< its process is gone for good
    std::string end_reason;
  };

  std::optional<std::int32_t> slot_of(route from) const;
  /// The link by which this very process is still a member.
  std::optional<route> same_process(const hello& request) const;
  std::optional<std::string> objection(const hello& request) const;
  void start_generation(membership_decision& out);
  void end_generation(std::int32_t slot, const std::string& reason, membership_decision& out);
  std::vector<member> members() const;

  std::vector<seat> seats_;
  std::uint64_t epoch_;
  std::uint64_t generation_ = 0;
  bool running_ = false;
};

} // namespace farandole
