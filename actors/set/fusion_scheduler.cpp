#include "actors/set/fusion_scheduler.hpp"

#include <map>
#include <utility>

#include "collectives/plan/paging.hpp"

namespace farandole {

fusion_scheduler_actor::behavior_type
fusion_scheduler_state::start(const set_place& where, const fusion_options& options, envelope_actor post) {
  where_ = where;
  plan_.emplace(options);
  post_ = std::move(post);
  return {
      [this](const verdict_message& message) { decided(*message.decided); },
      [this](const bundle_finished& message) { finished(message.sequence); },
      [this](tick_atom) { tick(); },
  };
}

void fusion_scheduler_state::decided(const verdict& what) {
  if (ended_)
    return;
  // What is for one member is about its past: it goes ahead of all that may be about its present.
  answer(what);
  plan_->push(what.ready, now());

  schedule out;
  out.assignments = what.assignments;
  auto dropped = what.forget;
  for (const auto& round : what.retract)
    dropped.push_back(round.id);
  if (plan_->holds_any(dropped)) {
    // No bundle may name an id that members were told to forget.
    out.bundles = plan_->flush();
    tell(-1, std::exchange(out, {}));
  }
  out.forget = what.forget;
  out.retract = what.retract;
  out.failures = what.failures;
  out.results = what.results;
  out.joined = what.joined;
  out.changed = what.changed;
  out.sets = what.sets;
  out.restarts = what.restarts;
  out.dissolved = what.dissolved;
  out.buckets = what.buckets;
  out.end = ended_ = what.end;
  out.departed = what.departed;
  // Who has joined stands in until the result of the join, and behind `end` nothing follows. A whole bucket
  // waits for no company: the rest of it would only make another message.
  out.bundles = what.joined >= 0 || what.end || what.whole ? plan_->flush() : plan_->take(now());
  if (!out.empty())
    tell(-1, std::move(out));
  if (ended_ && where_.ended)
    where_.ended();
  arm();
}

void fusion_scheduler_state::answer(const verdict& what) {
  std::map<std::int32_t, schedule> answers;
  for (const auto& refused : what.refusals)
    answers[refused.rank].failures.push_back(refused.failure);
  for (const auto& asked : what.questions)
    answers[asked.rank].ask.push_back(asked.id);
  for (auto& [rank, out] : answers)
    tell(rank, std::move(out));
}

void fusion_scheduler_state::finished(std::uint64_t sequence) {
  plan_->finished(sequence);
  emit_due();
}

void fusion_scheduler_state::tick() {
  armed_.reset();
  emit_due();
}

void fusion_scheduler_state::emit_due() {
  if (ended_)
    return;
  schedule out;
  out.bundles = plan_->take(now());
  if (!out.empty())
    tell(-1, std::move(out));
  arm();
}

void fusion_scheduler_state::tell(std::int32_t rank, schedule what) {
  const address from{where_.generation, where_.set, where_.leader, rank};
  for (auto& message : messages_of(from, std::move(what)))
    self_->send(post_, std::move(message));
}

void fusion_scheduler_state::arm() {
  const auto wake = plan_->wake_at();
  if (!wake || (armed_ && *armed_ <= *wake))
    return;
  armed_ = wake;
  self_->delayed_send(self_, *wake - now(), tick_atom::value);
}

std::chrono::nanoseconds fusion_scheduler_state::now() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(self_->clock().now().time_since_epoch());
}

fusion_scheduler_actor::behavior_type
fusion_scheduler(fusion_scheduler_actor::stateful_pointer<fusion_scheduler_state> self, set_place where,
                 fusion_options options, envelope_actor post) {
  return self->state.start(where, options, std::move(post));
}

} // namespace farandole
