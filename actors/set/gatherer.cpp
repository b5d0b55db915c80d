#include "actors/set/gatherer.hpp"

#include <utility>

namespace farandole {

gatherer_actor::behavior_type gatherer_state::start(gatherer_setup how) {
  setup_ = std::move(how);
  plan_.emplace(setup_.rules);
  return {
      [this](const envelope& message) { take(message); },
      [this](tick_atom, std::chrono::nanoseconds set_for) { tick(set_for); },
  };
}

void gatherer_state::take(const envelope& message) {
  if (message.generation() != setup_.self.generation || message.set() != setup_.self.set)
    return;
  const auto from = message.source();
  if (message.kind() == wire::Envelope::Body::SCHEDULE) {
    hear(message);
  } else if (message.kind() == wire::Envelope::Body::GATHERED) {
    const auto said = decode_gathered(message);
    const auto problem = said ? plan_->take(from, *said, now()) : said.error();
    if (problem)
      blame(from, problem.text);
  } else {
    const auto said = decode_requests(message);
    const auto problem = said ? plan_->take(from, *said, now()) : said.error();
    if (problem)
      blame(from, problem.text);
  }
  arm();
}

void gatherer_state::hear(const envelope& message) {
  const auto plan = decode_schedule(message, setup_.members);
  if (!plan)
    return blame(message.source(), plan.error().text);
  plan_->hear(*plan);
  if (plan->end && setup_.ended)
    setup_.ended();
}

void gatherer_state::tick(std::chrono::nanoseconds set_for) {
  if (armed_ != set_for)
    return;
  armed_.reset();
  if (auto up = plan_->due(now()); !up.empty())
    self_->send(setup_.post, encode(setup_.self, up));
  arm();
}

// What is due at once still waits for the mail that is here already: it may complete more.
void gatherer_state::arm() {
  const auto wake = plan_->wake_at();
  if (!wake || (armed_ && *armed_ <= *wake))
    return;
  armed_ = wake;
  if (const auto present = now(); *wake > present)
    self_->delayed_send(self_, *wake - present, tick_atom::value, *wake);
  else
    self_->send(self_, tick_atom::value, *wake);
}

void gatherer_state::blame(std::int32_t rank, std::string reason) {
  self_->send(setup_.watcher, member_fault{rank, setup_.self.set, std::move(reason)});
}

std::chrono::nanoseconds gatherer_state::now() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(self_->clock().now().time_since_epoch());
}

gatherer_actor::behavior_type gatherer(gatherer_actor::stateful_pointer<gatherer_state> self,
                                       gatherer_setup how) {
  return self->state.start(std::move(how));
}

} // namespace farandole
