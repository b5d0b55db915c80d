#include "actors/process_set/negotiator.hpp"

#include <utility>

#include "actors/interfaces/stalls.hpp"

namespace farandole {

namespace {

std::chrono::nanoseconds time_of(negotiator_actor::pointer self) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(self->clock().now().time_since_epoch());
}

} // namespace

negotiator_actor::behavior_type negotiator_state::start(const leader_setup& setup,
                                                        const negotiation_options& options,
                                                        fusion_scheduler_actor scheduler,
                                                        member_watcher_actor parent) {
  setup_ = setup;
  negotiation_.emplace(options);
  inline_.emplace(options.members, options.inline_bytes);
  scheduler_ = std::move(scheduler);
  parent_ = std::move(parent);
  return {
      [this](const envelope& message) { take(message); },
      [this](leave_atom) { end(); },
      [this](stalled_atom, std::chrono::nanoseconds limit) { return stalled(limit); },
  };
}

void negotiator_state::take(const envelope& message) {
  if (message.generation() != setup_.generation || message.set() != setup_.set)
    return;
  const auto follow = [&](const auto& decoded) {
    decoded ? take(message.source(), *decoded) : blame(message.source(), decoded.error().text);
  };
  if (message.kind() == wire::Envelope::Body::GATHERED)
    follow(decode_gathered(message));
  else
    follow(decode_requests(message));
}

void negotiator_state::take(std::int32_t relay, const gathered& batch) {
  decide(negotiation_->receive(relay, batch, time_of(self_)), relay);
  for (const auto& entry : batch.apart) {
    if (!negotiation_->speaks_for(relay, entry.rank))
      return blame(relay, "it speaks for rank " + std::to_string(entry.rank) + ", which is not below it");
    take(entry.rank, entry.batch);
  }
}

void negotiator_state::take(std::int32_t rank, const requests& batch) {
  if (batch.finished > 0 && rank == setup_.reporter)
    self_->send(scheduler_, bundle_finished{batch.finished - 1});
  if (auto breach = inline_->take(rank, batch))
    return blame(rank, breach.text);
  if (setup_.recorder && setup_.recorder->detailed())
    record_requests(rank, batch);
  decide(negotiation_->receive(rank, batch, time_of(self_)), rank);
}

// Requests in buckets and those of relays stand for many tensors or ranks, and are not recorded one by one.
void negotiator_state::record_requests(std::int32_t rank, const requests& batch) {
  const auto position = negotiation_->member_of(rank);
  if (!position)
    return;
  auto& recorder = *setup_.recorder;
  const auto record = [&](const recorded_tensors::tensor& tensor) {
    recorder.record(event_kind::request, tensor.name, setup_.set_id, tensor.operation,
                    static_cast<std::uint64_t>(*position));
  };
  for (const auto id : batch.ids)
    record(recorded_.find(id));
  for (const auto& request : batch.full)
    record({recorder.intern(request.name),
            recorded_operation(request.signature.operation, request.signature.reduce_op)});
}

void negotiator_state::record_ready(const negotiation_result& decided, std::int32_t last_rank) {
  auto& recorder = *setup_.recorder;
  const auto current_time = time_of(self_);
  for (const auto& assigned : decided.assignments)
    recorded_.add(assigned, recorder);
  for (const auto& ready : decided.ready) {
    const auto tensor = recorded_.find(ready, recorder);
    recorder.record(
        event_kind::ready, tensor.name, setup_.set_id, tensor.operation,
        static_cast<std::uint64_t>((current_time - ready.first_request).count()),
        pair_field(static_cast<std::uint32_t>(ready.first_rank), static_cast<std::uint32_t>(last_rank)));
  }
  for (const auto id : decided.forget)
    recorded_.forget(id);
  for (const auto& round : decided.retract)
    recorded_.forget(round.id);
}

void negotiator_state::decide(negotiation_result&& decided, std::int32_t last_rank) {
  if (setup_.recorder && setup_.recorder->records())
    record_ready(decided, last_rank);
  inline_->complete(decided);
  if (auto breach = std::exchange(decided.breach, {}))
    blame(decided.broken_by, breach.text);
  if (!decided.empty())
    self_->send(scheduler_,
                negotiation_result_message{std::make_shared<const negotiation_result>(std::move(decided))});
}

void negotiator_state::end() {
  decide(negotiation_->end());
}

stall_list negotiator_state::stalled(std::chrono::nanoseconds limit) {
  return {negotiation_->stalled(time_of(self_), limit)};
}

void negotiator_state::blame(std::int32_t rank, std::string reason) {
  self_->send(parent_, member_fault{rank, setup_.set, std::move(reason)});
}

negotiator_actor::behavior_type negotiator(negotiator_actor::stateful_pointer<negotiator_state> self,
                                           leader_setup setup, negotiation_options options,
                                           fusion_scheduler_actor scheduler, member_watcher_actor parent) {
  return self->state.start(setup, options, std::move(scheduler), std::move(parent));
}

} // namespace farandole
