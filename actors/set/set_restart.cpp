// The keeper's part that starts sets anew.
#include <chrono>
#include <string>
#include <utility>

#include "actors/interfaces/generation.hpp"
#include "actors/set/set_keeper.hpp"

namespace farandole {

namespace {

// A path that breaks is often the first word of what somebody else knows better: how long they may take to
// say it.
constexpr std::chrono::milliseconds suspicion{600};

constexpr std::chrono::microseconds retry_interval{50};

error started_anew(std::uint32_t id, const std::string& reason) {
  return {error_kind::disconnected,
          "process set " + std::to_string(id) + " was started anew, because a part of it failed " + reason +
              "; what was pending in it has failed on all its ranks, and the set goes on: this operation "
              "may be submitted again",
          id};
}

} // namespace

// ---- somebody sees it ----------------------------------------------------------------------------

// The leader's answer comes to all in the global schedule, also where it had ended the set already.
void set_keeper_state::report_fault(running_set& one, const std::string& reason) {
  if (over_ || std::exchange(one.failed, true))
    return;
  if (pattern_.log)
    pattern_.log->error("process set " + std::to_string(one.place->id) + " failed on this rank: " + reason);
  // The global set has ended, and nobody answers.
  if (leaving_)
    return abandon(one.place->number, shut_down());
  requests out;
  out.faults.push_back({one.place->number, reason});
  self->send(pattern_.post, encode(address{pattern_.generation, 0, pattern_.shared->rank}, out));
}

void set_keeper_state::broke(const set_broken& what) {
  auto found = running_.find(what.number);
  if (found == running_.end() || found->second.failed || over_)
    return;
  if (what.what.kind == error_kind::timed_out)
    return self->send(pattern_.member, generation_broken{what.what.text, what.what.kind});
  if (what.looked_at)
    return report_fault(found->second, what.what.text);
  auto later = what;
  later.looked_at = true;
  self->delayed_send(self, suspicion, std::move(later));
}

// ---- all hear of it ------------------------------------------------------------------------------

void set_keeper_state::restart(const sets_restarted& what) {
  for (auto& one : what.sets)
    if (!over_)
      restart(one);
}

void set_keeper_state::restart(const set_restart& what) {
  auto found = running_.find(what.ended);
  if (what.given_up) {
    if (found != running_.end())
      self->send(pattern_.member, generation_broken{what.reason});
    return;
  }
  if (!what.begins) {
    if (found == running_.end())
      return;
    auto why = found->second.why;
    abandon(what.ended, why ? why : started_anew(found->second.place->id, what.reason));
    awaited_.erase(what.ended);
    return settle_if_done();
  }
  auto epoch = found == running_.end() ? set_epoch{} : found->second.place->epoch;
  const auto why = started_anew(what.begins->id, what.reason);
  pattern_.shared->sets.suspend(what.begins->id);
  if (epoch.of) {
    epoch.of->restarted(why);
    ++epoch.number;
    abandon(what.ended, why);
  }
  start(*what.begins, epoch, true);
  if (awaited_.erase(what.ended))
    awaited_.insert(what.begins->number);
}

// ---- the old goes --------------------------------------------------------------------------------

// At once. The door is told when the tree is gone: until then the worker may settle what it holds.
void set_keeper_state::abandon(std::uint32_t number, const error& why) {
  if (leaving_ && !over_)
    say_last(number);
  auto ended = running_.extract(number);
  auto& one = ended.mapped();
  if (one.place->lane)
    one.place->lane->abort(why);
  caf::anon_send(pattern_.post, set_left{number});
  abandoned_.push_back({one.place, one.tree.address(), one.stopped, why});
  self->send_exit(one.tree, caf::exit_reason::user_shutdown);
  fail_doors();
}

// Of a set whose negotiator can no longer say it: the other members wait for it before they leave.
void set_keeper_state::say_last(std::uint32_t number) {
  if (pattern_.shared->rank != 0 || running_.at(number).last_heard)
    return;
  schedule last;
  last.end = true;
  self->send(pattern_.post, encode(address{pattern_.generation, number, 0}, last));
}

void set_keeper_state::retry() {
  retrying_ = false;
  fail_doors();
}

void set_keeper_state::fail_doors() {
  auto& sets = pattern_.shared->sets;
  auto busy = false;
  std::erase_if(abandoned_, [&](const remains& one) {
    if (!one.stopped)
      return false;
    if (one.place->lane)
      one.place->lane->abort(one.why); // it may have been built since
    if (one.place->door && one.place->door->fail(one.why) == door::attempt::busy) {
      busy = true;
      return false;
    }
    sets.retire(one.place);
    return true;
  });
  if (busy && !std::exchange(retrying_, true))
    self->delayed_send(self, retry_interval, retry_atom::value);
  if (taken_down_ && abandoned_.empty())
    return self->quit(taken_down_);
  leave_if_done();
}

} // namespace farandole
