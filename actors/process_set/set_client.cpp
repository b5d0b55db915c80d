#include "actors/process_set/set_client.hpp"

#include <algorithm>
#include <utility>

#include "actors/interfaces/generation.hpp"
#include "actors/interfaces/heartbeats.hpp"
#include "actors/interfaces/negotiation.hpp"
#include "actors/interfaces/stalls.hpp"
#include "actors/process_set/set_client_requests.hpp"
#include "collectives/negotiation/departure_report.hpp"
#include "messages/wire/schedule_order.hpp"

namespace farandole {

namespace {

// Interval at which the event loop checks operations on the fast path whose callers left a callback instead of
// waiting. It is short after such an operation arrives, because the other members are about to arrive as well, and
// doubles from check to check.
constexpr std::chrono::microseconds shortest_look_interval{20};
constexpr std::chrono::microseconds longest_look_interval{1000};

std::chrono::nanoseconds since_start(caf::actor_clock::time_point when) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(when.time_since_epoch());
}

/// Requests an id, together with its bucket if the accumulator takes it.
void ask(bucket_accumulator& accumulator, std::uint32_t id, std::chrono::nanoseconds current_time,
         requests& batch) {
  // The accumulator still holds the id from an earlier request, which has been answered in another way since.
  if (accumulator.holds(id))
    append(batch, accumulator.flush_bucket(id));
  if (!accumulator.takes(id))
    batch.ids.push_back(id);
  else if (const auto whole = accumulator.put(id, current_time))
    batch.buckets.push_back(*whole);
}

} // namespace

void set_client_state::begin(set_client_setup setup) {
  setup_ = std::move(setup);
}

// ---- from the submission queue to the leader -----------------------------------------------------------------

void set_client_state::drain_queue() {
  auto queued = setup_.queue->take_queue();
  requests batch;
  std::size_t inline_bytes = 0;
  for (auto& message : queued)
    std::visit(for_parts{
                   [&](operation_state_ptr& operation) {
                     // The earlier operation of this name has ended, so nothing is left of it that could be taken back.
                     std::erase(batch.withdraw, operation->name);
                     announce(std::move(operation), batch, inline_bytes);
                   },
                   [&](set_change_request& request) {
                     batch.change = std::move(request.change);
                     announce(std::move(request.operation), batch, inline_bytes);
                   },
                   [&](withdrawal_request& request) { batch.withdraw.push_back(std::move(request.name)); },
                   [&](watch_request& request) { watch(std::move(request)); },
                   [&](round_broken& broken) {
                     if (!end_reason_ && !departed_ && setup_.broke)
                       setup_.broke(std::move(broken.reason));
                   },
               },
               message);
  if (end_reason_)
    return;
  send(std::move(batch));
  arm();
}

// Settles complete operations that no caller may come to wait for. Looks again until none of them is on the fast
// path.
void set_client_state::look() {
  if (self->clock().now() < next_look_)
    return;
  fast_path_.look(setup_.move);
  if (fast_path_.watches())
    look_in(std::min(2 * look_interval_, longest_look_interval));
}

void set_client_state::look_in(std::chrono::microseconds interval) {
  look_interval_ = interval;
  next_look_ = self->clock().now() + interval;
  self->delayed_send(self, interval, look_atom::value);
}

stall_list set_client_state::stalled(std::chrono::nanoseconds limit) {
  if (end_reason_)
    return {};
  return {fast_path_.stalled(self->clock().now(), limit, setup_.ranks)};
}

void set_client_state::watch(watch_request request) {
  if (end_reason_)
    return;
  const auto current_time = self->clock().now();
  if (request.slow)
    return fast_path_.add_slow(std::move(request.operation), current_time - slow_wait);
  fast_path_.add(std::move(request.operation), current_time);
  if (fast_path_.watched() == 1 || look_interval_ != shortest_look_interval)
    look_in(shortest_look_interval);
}

void set_client_state::announce(operation_state_ptr operation, requests& batch, std::size_t& inline_bytes) {
  if (end_reason_) {
    operation->claim_and_settle(phase::queued, end_reason_);
    return;
  }
  batch.left.insert(batch.left.end(), operation->left.begin(), operation->left.end());
  if (operation->id != 0) {
    ask(accumulator_, operation->id, since_start(self->clock().now()), batch);
    add_value(*operation, batch, inline_bytes);
  } else if (operation->signature.operation == operation::join) {
    batch.join = joined_ = true;
  } else if (operation->name != set_change_name) { // batch.change carries a set change
    batch.full.push_back(full_request(*operation));
  }
  operation->record(event_kind::announced, 0, operation->id);
  operations_.add(std::move(operation));
}

void set_client_state::send(requests batch) {
  if (batch.must_not_overtake())
    append(batch, accumulator_.flush_all());
  if (!batch.empty())
    self->send(setup_.router, encode(setup_.self, batch));
}

void set_client_state::tick() {
  const auto current_time = self->clock().now();
  if (!next_tick_ || current_time < *next_tick_)
    return;
  next_tick_.reset();
  requests batch;
  if (!end_reason_)
    append(batch, accumulator_.overdue(since_start(current_time)));
  send(std::move(batch));
  arm();
}

// Keeps an earlier tick: ids that were added later are due later, or that tick arms the next one.
void set_client_state::arm() {
  const auto wake = accumulator_.wake_at();
  if (!wake || end_reason_)
    return;
  const caf::actor_clock::time_point when{
      std::chrono::duration_cast<caf::actor_clock::time_point::duration>(*wake)};
  if (next_tick_ && *next_tick_ <= when)
    return;
  next_tick_ = when;
  self->delayed_send(self, when - self->clock().now(), tick_atom::value);
}

void set_client_state::leave(departure manner) {
  requests batch;
  batch.leaves = std::move(manner);
  send(std::move(batch));
}

// If the leader is no member of the set, these reports tell it which bundles the lanes have finished.
void set_client_state::report(const bundle_finished& finished) {
  requests batch;
  batch.finished = finished.sequence + 1;
  if (!end_reason_)
    send(std::move(batch));
}

// ---- the end -------------------------------------------------------------------------------------

// Needs the submission queue; retries soon if the queue is busy.
void set_client_state::finish_generation() {
  departure_report report;
  if (setup_.queue->pending_names(report.pending) == submission_queue::attempt::busy)
    return try_later();
  const auto departed = *std::exchange(departed_, std::nullopt);
  report.manner = departed.manner;
  report.own = departed.rank == setup_.self.source;
  report.member = setup_.name_of ? setup_.name_of(departed.rank) : "rank " + std::to_string(departed.rank);
  report.submitted = setup_.queue->submitted();
  const bool interrupted = !report.own && !report.pending.empty();
  end(departure_error(std::move(report)));
  self->send(setup_.member, generation_ended{departed, interrupted, end_reason_});
}

void set_client_state::end(const error& reason) {
  if (end_reason_)
    return;
  end_reason_ = reason;
  queue_ended_ = false;
  retry();
}

void set_client_state::retry() {
  retrying_ = false;
  if (departed_ && !end_reason_)
    finish_generation();
  for (auto round : std::exchange(retractions_, {}))
    if (!end_reason_)
      retract(round);
  if (end_reason_ && !queue_ended_) {
    if (setup_.queue->end(end_reason_) == submission_queue::attempt::busy)
      return try_later();
    queue_ended_ = true;
    drain_queue();
    operations_.settle_all(end_reason_);
    if (setup_.settled)
      setup_.settled();
  }
}

void set_client_state::try_later() {
  if (!std::exchange(retrying_, true))
    self->delayed_send(self, std::chrono::microseconds(50), retry_atom::value);
}

set_client_actor::behavior_type set_client(set_client_actor::stateful_pointer<set_client_state> self,
                                           set_client_setup setup) {
  auto& state = self->state;
  state.begin(std::move(setup));
  return {
      [&state](doorbell_atom) { state.drain_queue(); },
      [&state](const envelope& message) { state.follow(message); },
      [&state](const leave_request& request) { state.leave(request.manner); },
      [&state](const generation_over& event) { state.end(event.reason); },
      [&state](retry_atom) { state.retry(); },
      [&state](look_atom) { state.look(); },
      [&state](tick_atom) { state.tick(); },
      [&state](const processes_silent& report) { state.judge(report); },
      [&state](const bundle_finished& finished) { state.report(finished); },
      [&state](stalled_atom, std::chrono::nanoseconds limit) { return state.stalled(limit); },
  };
}

} // namespace farandole
