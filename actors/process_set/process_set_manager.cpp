#include "actors/process_set/process_set_manager.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "actors/interfaces/generation.hpp"
#include "actors/interfaces/heartbeats.hpp"
#include "actors/process_set/set_actors.hpp"
#include "collectives/negotiation/set_registry.hpp"

namespace farandole {

namespace {

error removed(const set_event& event) {
  return {error_kind::aborted,
          "process set " + std::to_string(event.id) + " was removed while this operation was pending"};
}

// The exit reason of a supervisor carries a text.
std::string text_of(const caf::error& reason, const caf::actor_system& system) {
  if (reason.context().match_elements<std::string>())
    return reason.context().get_as<std::string>(0);
  return system.render(reason);
}

} // namespace

error process_set_manager_state::shut_down() {
  return {error_kind::shut_down, "Farandole has been shut down while this operation was pending; call init() "
                                 "again to go on"};
}

void process_set_manager_state::begin(set_setup pattern) {
  pattern_ = std::move(pattern);
  pattern_.sets = caf::actor_cast<process_set_manager_actor>(self);
  self->set_down_handler([this](const caf::down_msg& down_message) { down(down_message); });
  self->set_exit_handler([this](const caf::exit_msg& exit_message) { take_down(exit_message.reason); });
}

// If it fails, the actors of its sets end with it; the member then fails their operations.
process_set_manager_state::~process_set_manager_state() {
  for (const auto& [number, running_set] : running_)
    caf::anon_send_exit(running_set.tree, caf::exit_reason::user_shutdown);
}

// ---- changes -------------------------------------------------------------------------------------

void process_set_manager_state::change(const sets_changed& message) {
  asked_ = message.asked;
  awaited_.clear();
  started_.clear();
  if (end_reason_)
    return settle(end_reason_);
  for (auto& event : message.events) {
    if (!event.ends) {
      started_.push_back(event.id);
      start(event, {std::make_shared<set_epochs>(), 0}, false);
      // A process that is no member has no paths to connect.
      if (rank_in_set(pattern_.shared->rank, event.ranks) >= 0)
        awaited_.insert(event.number);
      continue;
    }
    pattern_.shared->sets.close(event.id);
    if (auto found = running_.find(event.number); found != running_.end()) {
      awaited_.insert(event.number);
      stop(found->second, removed(event));
    }
  }
  settle_if_done();
}

// Framework threads find a new set once it is connected. They already know a set that starts `again`: it is opened
// as soon as its actors run, and its operations wait until the paths are connected.
//
// A number must not be used twice: the new set would replace a running one, which could then never be ended.
void process_set_manager_state::start(const set_event& event, set_epoch epoch, bool again) {
  if (!begun_.insert(event.number).second)
    return self->send(pattern_.member,
                      generation_broken{"the leader (rank 0) broke the protocol: its schedule starts process "
                                        "set " +
                                        std::to_string(event.id) + " by number " +
                                        std::to_string(event.number) + ", which has been used"});
  auto setup = pattern_;
  setup.set_state = std::make_shared<shared_set_state>();
  setup.set_state->number = event.number;
  setup.set_state->id = event.id;
  setup.set_state->ranks = event.ranks;
  setup.set_state->epoch = std::move(epoch);
  auto reached = [me = setup.sets, number = event.number](set_progressed::stage stage_reached) {
    return [me, number, stage_reached] { caf::anon_send(me, set_progressed{number, stage_reached}); };
  };
  setup.ready = reached(set_progressed::stage::ready);
  setup.ended = reached(set_progressed::stage::ended);
  setup.settled = reached(set_progressed::stage::settled);
  setup.drained = reached(set_progressed::stage::drained);
  setup.broke = [me = setup.sets, number = event.number](const error& problem) {
    caf::anon_send(me, set_broken{number, problem});
  };
  if (!setup.takes_part())
    pattern_.shared->sets.open(setup.set_state);
  if (!setup.takes_part() && !setup.leads() && !setup.relays())
    return;
  record(event_kind::set_begin, *setup.set_state);
  auto& entry = running_[event.number];
  entry.set_state = setup.set_state;
  entry.actors = std::make_shared<set_actors>();
  entry.again = again;
  entry.ready = !setup.takes_part();
  auto started = [system = &self->home_system(), shared = setup.shared, set_state = setup.set_state,
                  router = setup.router, known = entry.actors,
                  built = reached(set_progressed::stage::built)](const set_actors& actors) {
    *known = actors;
    shared->sets.built(set_state);
    auto routes = actors.entered(set_state->number, set_state->ranks);
    inject(shared->faults, *system, set_state->id, shared->rank, actors.scheduler.address(), routes);
    caf::anon_send(router, std::move(routes));
    built();
  };
  entry.tree = self->spawn(supervisor, set_tree(setup, started));
  self->monitor(entry.tree);
}

void process_set_manager_state::record(event_kind kind, const shared_set_state& set) const {
  pattern_.shared->recorder->record(kind, 0, set.id, 0, set.epoch.number, set.ranks.size());
}

// A process that only leads a set, or forwards its requests, logs nothing about it.
void process_set_manager_state::log_event(const running_set& set, const std::string& event) const {
  if (pattern_.log && rank_in_set(pattern_.shared->rank, set.set_state->ranks) >= 0)
    pattern_.log->debug("process set " + std::to_string(set.set_state->id) + " " + event);
}

void process_set_manager_state::settle_if_done() {
  if (!awaited_.empty())
    return;
  if (asked_)
    asked_->outcome.sets = started_;
  settle({});
}

void process_set_manager_state::settle(const error& reason) {
  if (auto asked = std::exchange(asked_, {}))
    asked->claim_and_settle(phase::queued, reason);
}

// ---- one set's way -------------------------------------------------------------------------------

void process_set_manager_state::notified(const set_progressed& progress) {
  auto found = running_.find(progress.number);
  if (found == running_.end())
    return;
  auto& running_set = found->second;
  switch (progress.reached) {
  case set_progressed::stage::built:
    if (running_set.again && !running_set.reason && !end_reason_)
      pattern_.shared->sets.open(running_set.set_state);
    return;
  case set_progressed::stage::ready:
    running_set.ready = true;
    if (!running_set.again)
      log_event(running_set, "started with ranks " + ranks_to_text(running_set.set_state->ranks));
    if (end_reason_)
      return;
    awaited_.erase(progress.number);
    if (running_set.reason) // told to end while the other members were still connecting to the set
      stop(running_set, running_set.reason);
    else
      pattern_.shared->sets.open(running_set.set_state);
    return settle_if_done();
  case set_progressed::stage::ended:
    running_set.last_schedule_received = true;
    return fail_if_over(progress.number);
  case set_progressed::stage::settled:
    if (running_set.reason)
      self->send(running_set.actors->connector, drained_atom::value);
    return;
  case set_progressed::stage::drained:
    return gone(progress.number);
  }
}

void process_set_manager_state::stop(running_set& set, const error& reason) {
  set.reason = reason;
  // A set ends only after it is connected: otherwise the other members could not finish connecting to it.
  if (!set.ready || std::exchange(set.notified, true))
    return;
  if (set.actors->negotiator)
    self->send(set.actors->negotiator, leave_atom::value);
  fail_if_over(set.set_state->number);
}

// The set's last schedule may arrive before the global schedule that ends the set, because the two may take
// different routes.
void process_set_manager_state::fail_if_over(std::uint32_t number) {
  auto& entry = running_.at(number);
  if (!entry.reason || !entry.last_schedule_received || !entry.ready)
    return;
  if (entry.actors->client)
    self->send(entry.actors->client, generation_over{entry.reason});
  else
    gone(number);
}

void process_set_manager_state::gone(std::uint32_t number) {
  auto ended = running_.extract(number);
  auto& entry = ended.mapped();
  record(event_kind::set_end, *entry.set_state);
  if (!end_reason_)
    log_event(entry, "ended");
  caf::anon_send(pattern_.router, set_left{number});
  self->send_exit(entry.tree, caf::exit_reason::user_shutdown);
  pattern_.shared->sets.retire(entry.set_state);
  awaited_.erase(number);
  settle_if_done();
  leave_if_done();
}

// ---- the end -------------------------------------------------------------------------------------

// A change in progress is carried out: it is complete on the member that has left.
void process_set_manager_state::leave(const error& reason) {
  leaving_ = true;
  std::vector<std::uint32_t> numbers;
  for (auto& [number, running_set] : running_)
    numbers.push_back(number);
  // A set may be erased by the calls below, so each is looked up again.
  for (auto number : numbers)
    if (auto found = running_.find(number); found != running_.end()) {
      if (found->second.failed) {
        log_event(found->second, "ended");
        give_up(number, reason);
      } else
        stop(found->second, reason);
    }
  leave_if_done();
}

void process_set_manager_state::leave_if_done() {
  if (leaving_ && running_.empty() && abandoned_.empty() && !std::exchange(left_, true))
    self->send(pattern_.member, drained_atom::value);
}

void process_set_manager_state::end(const error& reason) {
  if (end_reason_)
    return;
  end_reason_ = reason;
  settle(reason);
  pattern_.shared->sets.resume();
  std::vector<std::uint32_t> failed;
  for (auto& [number, running_set] : running_) {
    log_event(running_set, "ended, because generation " + std::to_string(pattern_.generation) + " has ended");
    running_set.set_state->epoch.epochs->over(reason);
    if (running_set.stopped)
      failed.push_back(number);
  }
  for (auto number : failed)
    abandon(number, reason);
  for (auto& [number, running_set] : running_) {
    if (running_set.actors->client)
      self->send(running_set.actors->client, generation_over{reason});
    if (running_set.actors->connector)
      self->send(running_set.actors->connector, generation_over{reason});
  }
}

void process_set_manager_state::ask_about(const processes_silent& report) {
  for (auto& [number, running_set] : running_)
    if (running_set.actors->client)
      self->send(running_set.actors->client, report);
}

void process_set_manager_state::down(const caf::down_msg& down_message) {
  for (auto& abandoned_set : abandoned_)
    abandoned_set.stopped = abandoned_set.stopped || abandoned_set.tree == down_message.source;
  for (auto& [number, running_set] : running_)
    if (running_set.tree.address() == down_message.source) {
      running_set.stopped = true;
      if (end_reason_)
        abandon(number, end_reason_);
      else
        report_fault(running_set, text_of(down_message.reason, self->system()));
      break;
    }
  fail_queues();
}

// Fails the submission queues before it exits: afterwards, no actor would settle the operations pending in them.
void process_set_manager_state::take_down(const caf::error& reason) {
  end(shut_down());
  taken_down_ = reason;
  while (!running_.empty())
    abandon(running_.begin()->first, end_reason_);
  fail_queues();
}

process_set_manager_actor::behavior_type
process_set_manager(process_set_manager_actor::stateful_pointer<process_set_manager_state> self,
                    set_setup pattern) {
  auto& state = self->state;
  state.begin(std::move(pattern));
  return {
      [&state](const sets_changed& event) { state.change(event); },
      [&state](const sets_restarted& event) { state.restart(event); },
      [&state](const set_broken& broken_set) { state.broke(broken_set); },
      [&state](const set_progressed& progress) { state.notified(progress); },
      [&state](const generation_ended& event) { state.leave(event.reason); },
      [&state](const generation_over& event) { state.end(event.reason); },
      [&state](const processes_silent& report) { state.ask_about(report); },
      [&state](retry_atom) { state.retry(); },
  };
}

} // namespace farandole
