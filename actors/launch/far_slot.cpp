#include "actors/launch/far_slot.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace farandole {

far_slot_actor::behavior_type far_slot(far_slot_actor::stateful_pointer<far_slot_state> self,
                                       const far_slot_spec& spec, const slot_owner_actor& owner) {
  return self->state.begin(spec, owner);
}

far_slot_actor::behavior_type far_slot_state::begin(const far_slot_spec& spec,
                                                    const slot_owner_actor& owner) {
  spec_ = spec;
  owner_ = owner;
  // The messages that a slot sends itself come only to the agent's own slot.
  return {
      [this](start_atom) { start(); },
      [this](signal_atom, int number) { send_signal(number); },
      [this](const slot_input& input) { give(input); },
      [](ended_atom) {},
      [](output_atom, int) {},
      [](writable_atom, int) {},
      [](room_atom, int) {},
      [](overdue_atom) {},
      [this](const envelope& message) { received(message); },
      [this](const host_lost& event) { lost(event); },
      [this](drained_atom, int stream) {
        waiting_[stream] = false;
        acknowledge(stream);
      },
  };
}

void far_slot_state::start() {
  const auto& process = spec_.slot.process;
  start_request order;
  order.number = number();
  order.arguments = process.arguments;
  order.environment = process.environment;
  order.directory = process.directory;
  order.window_bytes = static_cast<std::uint32_t>(spec_.window_bytes);
  order.joins_job = spec_.joins_job;
  order.channel_variable = process.channel_variable;
  order.keeps_input = process.keeps_input;
  order.linger_ms = static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(spec_.slot.linger).count());
  request(encode(order));
}

void far_slot_state::send_signal(int signal) {
  if (!has_ended_)
    request(encode(process_signal{number(), signal}));
}

void far_slot_state::received(const envelope& message) {
  switch (message.kind()) {
  case wire::Envelope::Body::PROCESS_STARTED:
    if (const auto report = decode_process_started(message)) {
      started_ = true;
      if (!report->warning.empty() && spec_.slot.warn)
        spec_.slot.warn(report->warning);
      if (spec_.slot.started)
        spec_.slot.started(report->process);
    }
    break;
  case wire::Envelope::Body::PROCESS_OUTPUT:
    if (const auto output = decode_process_output(message))
      wrote(*output);
    break;
  case wire::Envelope::Body::INPUT_TAKEN:
    if (const auto report = decode_process_input_taken(message))
      took(report->stream, report->bytes);
    break;
  case wire::Envelope::Body::PROCESS_ENDED:
    if (const auto report = decode_process_ended(message))
      ended(*report);
    break;
  case wire::Envelope::Body::PROCESS_FINISHED:
    if (has_ended_)
      finish();
    break;
  default:
    break;
  }
}

void far_slot_state::give(const slot_input& input) {
  auto& given = inputs_[input.stream];
  given.owner = input.owner;
  given.bytes += input.bytes.size();
  if (has_ended_)
    return drop_input();
  std::string_view rest = input.bytes;
  do {
    const auto piece = rest.substr(0, most_stream_bytes);
    rest.remove_prefix(piece.size());
    request(encode(process_input{number(), input.stream, std::string(piece), input.ended && rest.empty()}));
  } while (!rest.empty());
}

void far_slot_state::took(int stream, std::size_t bytes) {
  auto& given = inputs_[stream];
  bytes = std::min(bytes, given.bytes);
  given.bytes -= bytes;
  if (given.owner && bytes > 0)
    self_->send(given.owner, slot_input_taken{spec_.slot.slot, stream, bytes});
}

void far_slot_state::drop_input() {
  for (const auto& [stream, given] : inputs_)
    took(stream, given.bytes);
}

void far_slot_state::wrote(const process_output& output) {
  if (output.ended)
    return spec_.sink->end(output.stream);
  spec_.sink->write(output.stream, output.bytes);
  consumed_bytes_[output.stream] += output.bytes.size();
  acknowledge(output.stream);
}

// Back-pressure: bytes are acknowledged once the sink has room. Small amounts are acknowledged together.
void far_slot_state::acknowledge(int stream) {
  auto& bytes = consumed_bytes_[stream];
  if (waiting_[stream] || bytes < spec_.window_bytes / 4)
    return;
  if (spec_.sink->full(stream)) {
    waiting_[stream] = true;
    const auto me = caf::actor_cast<far_slot_actor>(self_);
    spec_.sink->when_there_is_room(stream, [me, stream] { caf::anon_send(me, drained_atom::value, stream); });
    return;
  }
  request(encode(output_consumed{number(), stream, static_cast<std::uint32_t>(std::exchange(bytes, 0))}));
}

void far_slot_state::ended(const process_ended& report) {
  if (std::exchange(has_ended_, true))
    return;
  self_->send(owner_, slot_ended{spec_.slot.slot, {report.code, report.signal}, report.failure});
}

void far_slot_state::lost(const host_lost& event) {
  if (!std::exchange(has_ended_, true))
    self_->send(owner_, started_
                            ? slot_ended{spec_.slot.slot, {event.code, 0, "ended because " + event.cause}, {}}
                            : slot_ended{spec_.slot.slot, {event.code, 0}, event.cause});
  for (int stream = 0; stream < output_streams; ++stream)
    spec_.sink->end(stream);
  finish();
}

void far_slot_state::finish() {
  drop_input();
  self_->send(spec_.agents, agent_request_over{spec_.slot.agent, number()});
  self_->send(owner_, slot_finished{spec_.slot.slot, spec_.sink->last_lines()});
  self_->quit();
}

void far_slot_state::request(const envelope& message) {
  self_->send(spec_.agents,
              agent_request{spec_.slot.agent, number(), message, caf::actor_cast<far_slot_actor>(self_)});
}

} // namespace farandole
