// The negotiator: receives the members' requests, lets collectives/negotiation/negotiation decide, and passes the
// result on to the fusion scheduler of the same set. One for each (generation, set), on the set's leader.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/gpu/launch_clock.hpp"
#include "actors/interfaces/member_watcher.hpp"
#include "actors/interfaces/negotiation.hpp"
#include "actors/process_set/recorded_tensors.hpp"
#include "collectives/negotiation/inline_reduction.hpp"
#include "collectives/negotiation/negotiation.hpp"
#include "messages/record/event_recorder.hpp"

namespace farandole {

/// The set and the generation that an actor on the leader serves.
struct leader_setup {
  std::uint64_t generation = 0;
  std::uint32_t set = 0;
  std::int32_t leader = 0; ///< global rank of this process
  /// Called by the fusion scheduler when the last schedule, which says `end`, has been sent.
  std::function<void()> ended = {};
  /// The rank whose requests report finished bundles; -1: the leader's own lane tells the fusion scheduler.
  std::int32_t reporter = -1;
  /// Records the decisions; null if this process is no member of the set.
  std::shared_ptr<event_recorder> recorder = nullptr;
  std::uint32_t set_id = 0; ///< the set's id for users, for the record
  /// Whether devices may wait for other members while they work on a bundle, so that it is numbered by `launches`. Null:
  /// no bundle is.
  std::function<bool(const bundle& cut)> waits_on_devices = nullptr;
  std::shared_ptr<launch_clock> launches = nullptr; ///< of the leader's runtime
};

class negotiator_state {
public:
  negotiator_state(negotiator_actor::pointer self) : self_(self) {}
  negotiator_actor::behavior_type start(const leader_setup& setup, const negotiation_options& options,
                                        fusion_scheduler_actor scheduler, member_watcher_actor parent);

  static inline const char* name = "negotiator";

private:
  void take(const envelope& message);
  void take(std::int32_t relay, const gathered& batch);
  void take(std::int32_t rank, const requests& batch);
  /// `last_rank`: the sender of the message that led to the decision; -1: there is none.
  void decide(negotiation_result&& decided, std::int32_t last_rank = -1);
  void record_requests(std::int32_t rank, const requests& batch);
  void record_ready(const negotiation_result& decided, std::int32_t last_rank);
  void end();
  stall_list stalled(std::chrono::nanoseconds limit);
  void blame(std::int32_t rank, std::string reason);

  negotiator_actor::pointer self_;
  leader_setup setup_;
  std::optional<negotiation> negotiation_;
  std::optional<inline_reduction> inline_;
  recorded_tensors recorded_;
  fusion_scheduler_actor scheduler_;
  member_watcher_actor parent_;
};

/// Reports a member whose requests cannot be decoded, or break the protocol, to `parent`, which should close its
/// link. Ignores messages of another generation or set; the message gate has normally dropped them before.
negotiator_actor::behavior_type negotiator(negotiator_actor::stateful_pointer<negotiator_state> self,
                                           leader_setup setup, negotiation_options options,
                                           fusion_scheduler_actor scheduler, member_watcher_actor parent);

} // namespace farandole
