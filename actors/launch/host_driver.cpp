#include "actors/launch/host_driver.hpp"

#include <cassert>

#include "actors/event_loop/clock.hpp"
#include "actors/launch/hands.hpp"
#include "actors/rendezvous/this_host.hpp"

namespace farandole {

host_driver_actor::behavior_type host_driver(host_driver_actor::stateful_pointer<host_driver_state> self,
                                             const host_driver_spec& spec) {
  return self->state.begin(spec);
}

host_driver_actor::behavior_type host_driver_state::begin(const host_driver_spec& spec) {
  assert(!spec.slots.empty());
  spec_ = spec;
  rules_ = std::make_unique<job_ending>(static_cast<std::int32_t>(spec_.slots.size()), spec_.times);
  return {
      [this](start_atom) { start(); },
      [this](interrupt_atom, int signal) { follow(rules_->interrupted(signal, now(self_))); },
      [this](const slot_ended& event) { ended(event); },
      [this](const slot_finished& event) { finished(event); },
      [this](const slot_fate& slot_fate) { cause_.learn(slot_fate); },
      [this](due_atom) { follow(rules_->due(now(self_))); },
  };
}

void host_driver_state::start() {
  assert(slots_.empty());
  const slot_owner_actor me = caf::actor_cast<host_driver_actor>(self_);
  for (const auto& spec : spec_.slots)
    slots_.push_back(spec_.hands->slot(spec, me));
  for (const auto& slot_handle : slots_)
    self_->send(slot_handle, start_atom::value);
}

void host_driver_state::ended(const slot_ended& event) {
  const bool ran = event.failure.empty();
  if (spec_.slot_exited)
    spec_.slot_exited(event.slot, ran ? event.exit_status.text() : "could not be started: " + event.failure);
  if (!ran) {
    cause_.could_not_start(event.slot, "could not be started: " + event.failure, event.exit_status.code);
    return follow(rules_->could_not_start(event.slot, event.failure, event.exit_status.code, now(self_)));
  }
  if (spec_.worker_ended)
    spec_.worker_ended({event.slot, event.exit_status.text(), rules_->signalled()});
  cause_.ended(event.slot, event.exit_status, rules_->signalled());
  follow(rules_->ended(event.slot, event.exit_status, now(self_), cause_.culprit_of(event.slot)));
}

void host_driver_state::follow(const job_ending::step& step) {
  for (const auto& line : step.lines)
    say(line);
  if (step.signal != 0)
    for (const auto& slot : slots_)
      self_->send(slot, signal_atom::value, step.signal);
  if (step.call_next)
    self_->delayed_send(self_, *step.call_next - now(self_), due_atom::value);
}

// The cause is determined after all slots have finished, because the process at fault may be among the last to end.
void host_driver_state::finished(const slot_finished& event) {
  if (spec_.slot_complete)
    spec_.slot_complete(event.slot);
  last_errors_[event.slot] = event.last_lines;
  cause_.wrote(event.slot, event.last_lines);
  if (last_errors_.size() < slots_.size())
    return;
  const auto cause = rules_->failed() ? cause_.judge() : std::nullopt;
  if (cause)
    summarise(*cause);
  spec_.finished(cause ? cause->code : rules_->code());
  self_->quit();
}

void host_driver_state::summarise(const root_cause::conclusion& cause) {
  const auto& slot = spec_.slots.at(static_cast<std::size_t>(cause.slot));
  std::vector<failed_process> others;
  for (const auto other : cause_.failed())
    if (other != cause.slot)
      others.push_back({std::to_string(other), last_errors_[other]});
  for (const auto& line :
       failure_summary({std::to_string(cause.slot), cause.process_code, host_name_of(slot.host), cause.text,
                        cause.ran ? slot.label : "", slot.folder, last_errors_[cause.slot]},
                       others))
    say(line);
}

void host_driver_state::say(const std::string& line) {
  spec_.hands->say(line);
}

} // namespace farandole
