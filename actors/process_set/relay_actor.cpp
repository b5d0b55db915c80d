#include "actors/process_set/relay_actor.hpp"

#include <utility>

namespace farandole {

relay_actor::behavior_type relay_actor_state::start(relay_actor_setup setup) {
  setup_ = std::move(setup);
  relay_.emplace(setup_.rules);
  return {
      [this](const envelope& message) { take(message); },
      [this](tick_atom, std::chrono::nanoseconds set_for) { tick(set_for); },
  };
}

void relay_actor_state::take(const envelope& message) {
  if (message.generation() != setup_.self.generation || message.set() != setup_.self.set)
    return;
  const auto from = message.source();
  if (message.kind() == wire::Envelope::Body::SCHEDULE) {
    apply_schedule(message);
  } else if (message.kind() == wire::Envelope::Body::GATHERED) {
    const auto decoded = decode_gathered(message);
    const auto problem = decoded ? relay_->take(from, *decoded, now()) : decoded.error();
    if (problem)
      blame(from, problem.text);
  } else {
    const auto decoded = decode_requests(message);
    const auto problem = decoded ? relay_->take(from, *decoded, now()) : decoded.error();
    if (problem)
      blame(from, problem.text);
  }
  arm();
}

void relay_actor_state::apply_schedule(const envelope& message) {
  const auto plan = decode_schedule(message, setup_.members);
  if (!plan)
    return blame(message.source(), plan.error().text);
  relay_->apply_schedule(*plan);
  if (plan->end && setup_.ended)
    setup_.ended();
}

void relay_actor_state::tick(std::chrono::nanoseconds set_for) {
  if (armed_ != set_for)
    return;
  armed_.reset();
  if (auto up = relay_->due(now()); !up.empty())
    self_->send(setup_.router, encode(setup_.self, up));
  arm();
}

// Requests that are due at once still wait for the messages that are in the mailbox already, which may add to them.
void relay_actor_state::arm() {
  const auto wake = relay_->wake_at();
  if (!wake || (armed_ && *armed_ <= *wake))
    return;
  armed_ = wake;
  if (const auto present = now(); *wake > present)
    self_->delayed_send(self_, *wake - present, tick_atom::value, *wake);
  else
    self_->send(self_, tick_atom::value, *wake);
}

void relay_actor_state::blame(std::int32_t rank, std::string reason) {
  self_->send(setup_.watcher, member_fault{rank, setup_.self.set, std::move(reason)});
}

std::chrono::nanoseconds relay_actor_state::now() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(self_->clock().now().time_since_epoch());
}

relay_actor::behavior_type relay_behaviour(relay_actor::stateful_pointer<relay_actor_state> self,
                                           relay_actor_setup setup) {
  return self->state.start(std::move(setup));
}

} // namespace farandole
