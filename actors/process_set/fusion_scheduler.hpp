// The fusion scheduler: puts ready tensors into one order of bundles (collectives/fusion/fusion) and sends the
// schedules to all members. One for each (generation, set), on the set's leader, beside the negotiator.
#pragma once

#include <optional>

#include "actors/event_loop/envelope_actor.hpp"
#include "actors/interfaces/negotiation.hpp"
#include "actors/process_set/negotiator.hpp"
#include "collectives/fusion/fusion.hpp"

namespace farandole {

class fusion_scheduler_state {
public:
  fusion_scheduler_state(fusion_scheduler_actor::pointer self) : self_(self) {}
  fusion_scheduler_state(const fusion_scheduler_state&) = delete;
  fusion_scheduler_state& operator=(const fusion_scheduler_state&) = delete;
  ~fusion_scheduler_state() {
    if (setup_.launches)
      setup_.launches->close(setup_.set);
  }
  fusion_scheduler_actor::behavior_type start(const leader_setup& setup, const fusion_options& options,
                                              envelope_actor router);

  static inline const char* name = "fusion_scheduler";

private:
  void decided(const negotiation_result& decision);
  void answer(const negotiation_result& decision);
  void finished(std::uint64_t sequence);
  void tick();
  void emit_due();
  std::vector<bundle> in_order(std::vector<bundle> bundles) const;
  void send_schedule(std::int32_t rank, schedule schedule);
  void arm();
  std::chrono::nanoseconds now() const;

  fusion_scheduler_actor::pointer self_;
  leader_setup setup_;
  std::optional<fusion> fusion_;
  envelope_actor router_;
  std::optional<std::chrono::nanoseconds> armed_; ///< time of the next tick
  bool ended_ = false;
};

fusion_scheduler_actor::behavior_type
fusion_scheduler(fusion_scheduler_actor::stateful_pointer<fusion_scheduler_state> self, leader_setup setup,
                 fusion_options options, envelope_actor router);

} // namespace farandole
