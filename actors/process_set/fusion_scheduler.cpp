#include "actors/process_set/fusion_scheduler.hpp"

#include <map>
#include <utility>

#include "collectives/negotiation/paging.hpp"

namespace farandole {

fusion_scheduler_actor::behavior_type fusion_scheduler_state::start(const leader_setup& setup,
                                                                    const fusion_options& options,
                                                                    envelope_actor router) {
  setup_ = setup;
  fusion_.emplace(options);
  router_ = std::move(router);
  return {
      [this](const negotiation_result_message& message) { decided(*message.decided); },
      [this](const bundle_finished& message) { finished(message.sequence); },
      [this](tick_atom) { tick(); },
  };
}

void fusion_scheduler_state::decided(const negotiation_result& decision) {
  if (ended_)
    return;
  // Answers to single members refer to their earlier requests. They are sent before the schedule, which may refer to
  // the current ones.
  answer(decision);
  fusion_->push(decision.ready, now());

  schedule schedule;
  schedule.assignments = decision.assignments;
  auto dropped = decision.forget;
  for (const auto& round : decision.retract)
    dropped.push_back(round.id);
  if (fusion_->holds_any(dropped)) {
    // No bundle may name an id that members were told to forget.
    schedule.bundles = in_order(fusion_->flush());
    send_schedule(-1, std::exchange(schedule, {}));
  }
  schedule.forget = decision.forget;
  schedule.retract = decision.retract;
  schedule.failures = decision.failures;
  schedule.absent = decision.absent;
  schedule.results = decision.results;
  schedule.joined = decision.joined;
  schedule.changed = decision.changed;
  schedule.sets = decision.sets;
  schedule.restarts = decision.restarts;
  schedule.dissolved = decision.dissolved;
  schedule.buckets = decision.buckets;
  schedule.end = ended_ = decision.end;
  schedule.departed = decision.departed;
  // A member that has joined stands in only until the result of the join, and no schedule follows `end`: both flush
  // all bundles. A whole bucket is not held back for more tensors: that would only cost another message.
  schedule.bundles = in_order(decision.joined >= 0 || decision.end || decision.whole ? fusion_->flush()
                                                                                     : fusion_->take(now()));
  if (!schedule.empty())
    send_schedule(-1, std::move(schedule));
  if (ended_ && setup_.ended)
    setup_.ended();
  arm();
}

void fusion_scheduler_state::answer(const negotiation_result& decision) {
  std::map<std::int32_t, schedule> answers;
  for (const auto& refused : decision.refusals)
    answers[refused.rank].failures.push_back(refused.failure);
  for (const auto& asked : decision.questions)
    answers[asked.rank].ask.push_back(asked.id);
  for (auto& [rank, next_schedule] : answers)
    send_schedule(rank, std::move(next_schedule));
}

void fusion_scheduler_state::finished(std::uint64_t sequence) {
  fusion_->finished(sequence);
  emit_due();
}

void fusion_scheduler_state::tick() {
  armed_.reset();
  emit_due();
}

void fusion_scheduler_state::emit_due() {
  if (ended_)
    return;
  schedule schedule;
  schedule.bundles = in_order(fusion_->take(now()));
  if (!schedule.empty())
    send_schedule(-1, std::move(schedule));
  arm();
}

// Numbers the bundles in the order of launches, and records them.
std::vector<bundle> fusion_scheduler_state::in_order(std::vector<bundle> bundles) const {
  for (std::size_t i = 0; i < bundles.size(); ++i) {
    auto& cut = bundles[i];
    cut.ordered = setup_.waits_on_devices && setup_.waits_on_devices(cut);
    if (cut.ordered)
      cut.after = setup_.launches->next(setup_.set);
    if (setup_.recorder)
      setup_.recorder->record(event_kind::cut, 0, setup_.set_id,
                              static_cast<std::uint8_t>(fusion_->triggers()[i]), cut.sequence,
                              cut.entries.size());
  }
  return bundles;
}

void fusion_scheduler_state::send_schedule(std::int32_t rank, schedule schedule) {
  const address from{setup_.generation, setup_.set, setup_.leader, rank};
  for (auto& message : messages_of(from, std::move(schedule)))
    self_->send(router_, std::move(message));
}

void fusion_scheduler_state::arm() {
  const auto wake = fusion_->wake_at();
  if (!wake || (armed_ && *armed_ <= *wake))
    return;
  armed_ = wake;
  self_->delayed_send(self_, *wake - now(), tick_atom::value);
}

std::chrono::nanoseconds fusion_scheduler_state::now() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(self_->clock().now().time_since_epoch());
}

fusion_scheduler_actor::behavior_type
fusion_scheduler(fusion_scheduler_actor::stateful_pointer<fusion_scheduler_state> self, leader_setup setup,
                 fusion_options options, envelope_actor router) {
  return self->state.start(setup, options, std::move(router));
}

} // namespace farandole
