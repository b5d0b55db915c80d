// The part of the process-set manager that restarts sets.
#include <chrono>
#include <string>
#include <utility>

#include "actors/interfaces/generation.hpp"
#include "actors/process_set/process_set_manager.hpp"

namespace farandole {

namespace {

// A broken path is often the first sign of a failure that another component can explain better. This is how long
// the manager waits for that explanation.
constexpr std::chrono::milliseconds suspicion{600};

constexpr std::chrono::microseconds retry_interval{50};

error restart_error(std::uint32_t id, const std::string& reason) {
  return {error_kind::disconnected,
          "process set " + std::to_string(id) + " was restarted, because a part of it failed " + reason +
              "; its pending operations have failed on all its ranks, and the set goes on: this operation "
              "may be submitted again",
          id};
}

} // namespace

// ---- a failure on this member --------------------------------------------------------------------

// The leader answers to all members in the global schedule, even if it had ended the set already.
void process_set_manager_state::report_fault(running_set& set, const std::string& reason) {
  if (end_reason_ || std::exchange(set.failed, true))
    return;
  if (pattern_.log)
    pattern_.log->error("process set " + std::to_string(set.set_state->id) +
                        " failed on this rank: " + reason);
  // The global set has ended, so no answer will come.
  if (leaving_) {
    log_event(set, "ended");
    return give_up(set.set_state->number, shut_down());
  }
  requests batch;
  batch.faults.push_back({set.set_state->number, reason});
  self->send(pattern_.router, encode(address{pattern_.generation, 0, pattern_.shared->rank}, batch));
}

void process_set_manager_state::broke(const set_broken& broken_set) {
  auto found = running_.find(broken_set.number);
  if (found == running_.end() || found->second.failed || end_reason_)
    return;
  if (broken_set.reason.kind == error_kind::timed_out)
    return self->send(pattern_.member, generation_broken{broken_set.reason.text, broken_set.reason.kind});
  if (broken_set.second_report)
    return report_fault(found->second, broken_set.reason.text);
  auto later = broken_set;
  later.second_report = true;
  self->delayed_send(self, suspicion, std::move(later));
}

// ---- the restart on all members ------------------------------------------------------------------

void process_set_manager_state::restart(const sets_restarted& event) {
  for (auto& set : event.sets)
    if (!end_reason_)
      restart(set);
}

void process_set_manager_state::restart(const set_restart& set_to_restart) {
  auto found = running_.find(set_to_restart.ended);
  if (set_to_restart.given_up) {
    if (found != running_.end())
      self->send(pattern_.member, generation_broken{set_to_restart.reason});
    return;
  }
  if (!set_to_restart.begins) {
    if (found == running_.end())
      return;
    auto reason = found->second.reason;
    log_event(found->second, "ended, because a part of it failed " + set_to_restart.reason);
    abandon(set_to_restart.ended,
            reason ? reason : restart_error(found->second.set_state->id, set_to_restart.reason));
    awaited_.erase(set_to_restart.ended);
    return settle_if_done();
  }
  auto epoch = found == running_.end() ? set_epoch{} : found->second.set_state->epoch;
  const auto reason = restart_error(set_to_restart.begins->id, set_to_restart.reason);
  pattern_.shared->sets.suspend(set_to_restart.begins->id);
  if (epoch.epochs) {
    log_event(found->second, "restarts, because a part of it failed " + set_to_restart.reason);
    epoch.epochs->restarted(reason);
    ++epoch.number;
    abandon(set_to_restart.ended, reason);
  }
  start(*set_to_restart.begins, epoch, true);
  if (awaited_.erase(set_to_restart.ended))
    awaited_.insert(set_to_restart.begins->number);
}

// ---- the end of the failed tree ------------------------------------------------------------------

// Aborts the lane at once. The submission queue fails only when the tree is gone: until then the set client may
// settle operations that it holds.
void process_set_manager_state::abandon(std::uint32_t number, const error& reason) {
  if (leaving_ && !end_reason_)
    send_last_schedule(number);
  auto ended = running_.extract(number);
  auto& entry = ended.mapped();
  if (entry.set_state->lane)
    entry.set_state->lane->abort(reason);
  caf::anon_send(pattern_.router, set_left{number});
  abandoned_.push_back({entry.set_state, entry.tree.address(), entry.stopped, reason});
  self->send_exit(entry.tree, caf::exit_reason::user_shutdown);
  fail_queues();
}

// Abandons a set for good. A change that starts or ends it here has failed.
void process_set_manager_state::give_up(std::uint32_t number, const error& reason) {
  abandon(number, reason);
  if (awaited_.erase(number))
    settle(reason);
}

// Sends the last schedule of a set whose negotiator can no longer send it: the other members wait for it before they
// leave.
void process_set_manager_state::send_last_schedule(std::uint32_t number) {
  if (pattern_.shared->rank != 0 || running_.at(number).last_schedule_received)
    return;
  schedule last;
  last.end = true;
  self->send(pattern_.router, encode(address{pattern_.generation, number, 0}, last));
}

void process_set_manager_state::retry() {
  retrying_ = false;
  fail_queues();
}

void process_set_manager_state::fail_queues() {
  auto& sets = pattern_.shared->sets;
  auto busy = false;
  std::erase_if(abandoned_, [&](const abandoned_set& abandoned_set) {
    if (!abandoned_set.stopped)
      return false;
    // The lane may have been made after abandon().
    if (abandoned_set.set_state->fail(abandoned_set.reason) == submission_queue::attempt::busy) {
      busy = true;
      return false;
    }
    sets.retire(abandoned_set.set_state);
    return true;
  });
  if (busy && !std::exchange(retrying_, true))
    self->delayed_send(self, retry_interval, retry_atom::value);
  if (taken_down_ && abandoned_.empty())
    return self->quit(taken_down_);
  leave_if_done();
}

} // namespace farandole
