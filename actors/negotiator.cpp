#include "actors/negotiator.hpp"

#include <utility>

namespace farandole {

namespace {

std::chrono::nanoseconds time_of(negotiator_actor::pointer self) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(self->clock().now().time_since_epoch());
}

} // namespace

negotiator_actor::behavior_type negotiator_state::start(const set_place& where,
                                                        const negotiation_options& options,
                                                        fusion_scheduler_actor scheduler,
                                                        member_watcher_actor parent) {
  where_ = where;
  plan_.emplace(options);
  scheduler_ = std::move(scheduler);
  parent_ = std::move(parent);
  return {
      [this](const envelope& message) { take(message); },
      [this](leave_atom) { end(); },
      [this](stalled_atom, std::chrono::nanoseconds limit) { return stalled(limit); },
  };
}

void negotiator_state::take(const envelope& message) {
  if (message.generation() != where_.generation || message.set() != where_.set)
    return;
  const auto asked = decode_requests(message);
  if (!asked) {
    blame(message.source(), asked.error().text);
    return;
  }
  if (asked->finished > 0 && message.source() == where_.reporter)
    self_->send(scheduler_, bundle_finished{asked->finished - 1});
  auto decided = plan_->receive(message.source(), *asked, time_of(self_));
  if (auto breach = std::exchange(decided.breach, {}))
    blame(message.source(), breach.text);
  if (!decided.empty())
    self_->send(scheduler_, verdict_message{std::make_shared<const verdict>(std::move(decided))});
}

void negotiator_state::end() {
  auto decided = plan_->end();
  if (!decided.empty())
    self_->send(scheduler_, verdict_message{std::make_shared<const verdict>(std::move(decided))});
}

stall_list negotiator_state::stalled(std::chrono::nanoseconds limit) const {
  return {plan_->stalled(time_of(self_), limit)};
}

void negotiator_state::blame(std::int32_t rank, std::string reason) {
  self_->send(parent_, member_fault{rank, where_.set, std::move(reason)});
}

negotiator_actor::behavior_type negotiator(negotiator_actor::stateful_pointer<negotiator_state> self,
                                           set_place where, negotiation_options options,
                                           fusion_scheduler_actor scheduler, member_watcher_actor parent) {
  return self->state.start(where, options, std::move(scheduler), std::move(parent));
}

} // namespace farandole
