#include "actors/launch/remote_command_actor.hpp"

#include <utility>

#include "actors/launch/remote_command.hpp"
#include "messages/wire/membership.hpp"

namespace farandole {

remote_command_actor::behavior_type
remote_command(remote_command_actor::stateful_pointer<remote_command_state> self,
               const remote_command_spec& spec) {
  return self->state.begin(spec);
}

remote_command_actor::behavior_type remote_command_state::begin(const remote_command_spec& spec) {
  spec_ = spec;
  return {
      [this](const slot_ended& event) { ended(event); },
      [this](const slot_finished&) {
        far_ = nullptr;
        finish(code_, failure_);
      },
      [this](start_atom) {
        dial(self_->system(), spec_.ip, spec_.port, caf::actor_cast<caf::actor>(self_), 1, spec_.links);
      },
      [this](interrupt_atom, int signal) { interrupted(signal); },
      [this](const agent_request& request) {
        if (link_)
          caf::anon_send(link_, request.message);
      },
      [](const agent_request_over&) {}, // slot_finished follows
      [this](const link_opened& event) { opened(event); },
      [this](const link_received& event) { received(event); },
      [this](const link_closed& event) {
        link_ = nullptr;
        finish(command_lost_code, "the connection to the job's launcher ended" +
                                      (event.reason.empty() ? "" : ": " + event.reason));
      },
  };
}

void remote_command_state::opened(const link_opened& event) {
  link_ = event.handle;
  caf::anon_send(link_, encode(command_request{wire_version, spec_.host}));
}

void remote_command_state::received(const link_received& event) {
  if (event.message.kind() == wire::Envelope::Body::REFUSED) {
    const auto refusal = decode_refused(event.message);
    return finish(command_lost_code, refusal ? refusal->reason : refusal.error().text);
  }
  if (far_)
    self_->send(far_, event.message);
  else if (const auto acceptance = decode_command_accepted(event.message); acceptance && !result_)
    accepted(acceptance->number);
}

void remote_command_state::accepted(process_number number) {
  spec_.slot.slot = static_cast<std::int32_t>(number);
  spec_.slot.agent = spec_.host;
  spec_.slot.started = [input = spec_.input](pid_t) { caf::anon_send(input, start_atom::value); };
  const auto me = caf::actor_cast<remote_command_actor>(self_);
  far_ = self_->spawn(far_slot, far_slot_spec{spec_.slot, false, spec_.window_bytes, spec_.sink, me}, me);
  self_->send(spec_.input, slot_made{spec_.slot.slot, far_});
  self_->send(far_, start_atom::value);
}

void remote_command_state::interrupted(int signal) {
  if (far_)
    self_->send(far_, signal_atom::value, signal);
  else
    finish(128 + signal, "the command has not started");
}

void remote_command_state::ended(const slot_ended& event) {
  code_ = event.exit_status.code;
  failure_ = event.failure;
}

void remote_command_state::finish(int code, const std::string& problem) {
  if (!result_) {
    result_.emplace(code, problem);
    if (link_)
      caf::anon_send(link_, close_atom::value);
    if (far_)
      self_->send(far_, host_lost{problem, code}); // slot_finished follows, if it is not on its way
  }
  end_if_complete();
}

/// The far slot uses the sink until it has finished. A link that is not open ends with its owner.
void remote_command_state::end_if_complete() {
  if (far_)
    return;
  if (spec_.finished)
    std::exchange(spec_.finished, nullptr)(result_->first, result_->second);
  if (!link_)
    self_->quit();
}

} // namespace farandole
