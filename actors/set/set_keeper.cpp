#include "actors/set/set_keeper.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "actors/interfaces/generation.hpp"
#include "actors/interfaces/heartbeats.hpp"
#include "actors/set/set_actors.hpp"

namespace farandole {

namespace {

error removed(const set_event& what) {
  return {error_kind::aborted,
          "process set " + std::to_string(what.id) + " was removed while this operation was pending"};
}

// A supervisor ends with a text.
std::string text_of(const caf::error& reason, const caf::actor_system& system) {
  if (reason.context().match_elements<std::string>())
    return reason.context().get_as<std::string>(0);
  return system.render(reason);
}

} // namespace

error set_keeper_state::shut_down() {
  return {error_kind::shut_down, "Farandole has been shut down while this operation was pending; call init() "
                                 "again to go on"};
}

void set_keeper_state::begin(set_setup pattern) {
  pattern_ = std::move(pattern);
  pattern_.sets = caf::actor_cast<sets_actor>(self);
  self->set_down_handler([this](const caf::down_msg& what) { down(what); });
  self->set_exit_handler([this](const caf::exit_msg& what) { take_down(what.reason); });
}

// ---- changes -------------------------------------------------------------------------------------

void set_keeper_state::change(const sets_changed& what) {
  asked_ = what.asked;
  awaited_.clear();
  started_.clear();
  if (over_)
    return settle(over_);
  for (auto& event : what.events) {
    if (!event.ends) {
      started_.push_back(event.id);
      start(event, {std::make_shared<set_epochs>(), 0}, false);
      // Who is no member has nothing to connect.
      if (place_of(pattern_.shared->rank, event.ranks) >= 0)
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

// Framework threads find a new set once it is connected. A set that starts `again` they have found before:
// what they ask of it waits behind the connecting.
//
// A number that comes twice would take the place of a set that runs, and nobody would end that one.
void set_keeper_state::start(const set_event& what, set_epoch epoch, bool again) {
  if (!begun_.insert(what.number).second)
    return self->send(pattern_.member,
                      generation_broken{"the leader (rank 0) broke the protocol: its schedule starts process "
                                        "set " +
                                        std::to_string(what.id) + " by number " +
                                        std::to_string(what.number) + ", which has been used"});
  auto how = pattern_;
  how.place = std::make_shared<set_standing>();
  how.place->number = what.number;
  how.place->id = what.id;
  how.place->ranks = what.ranks;
  how.place->epoch = std::move(epoch);
  auto news = [me = how.sets, number = what.number](set_told::what said) {
    return [me, number, said] { caf::anon_send(me, set_told{number, said}); };
  };
  how.ready = news(set_told::what::ready);
  how.ended = news(set_told::what::ended);
  how.settled = news(set_told::what::settled);
  how.drained = news(set_told::what::drained);
  how.broke = [me = how.sets, number = what.number](const error& problem) {
    caf::anon_send(me, set_broken{number, problem});
  };
  if (!how.takes_part())
    pattern_.shared->sets.open(how.place);
  if (!how.takes_part() && !how.leads() && !how.relays())
    return;
  auto& one = running_[what.number];
  one.place = how.place;
  one.actors = std::make_shared<set_actors>();
  one.again = again;
  one.ready = !how.takes_part();
  auto started = [system = &self->home_system(), shared = how.shared, place = how.place, post = how.post,
                  known = one.actors, built = news(set_told::what::built)](const set_actors& actors) {
    *known = actors;
    shared->sets.built(place);
    auto routes = actors.entered(place->number, place->ranks);
    inject(shared->faults, *system, place->id, shared->rank, actors.scheduler.address(), routes);
    caf::anon_send(post, std::move(routes));
    built();
  };
  one.tree = self->spawn(supervisor, set_tree(how, started));
  self->monitor(one.tree);
}

void set_keeper_state::settle_if_done() {
  if (!awaited_.empty())
    return;
  if (asked_)
    asked_->outcome.sets = started_;
  settle({});
}

void set_keeper_state::settle(const error& how) {
  if (auto asked = std::exchange(asked_, {}))
    asked->claim_and_settle(phase::queued, how);
}

// ---- one set's way -------------------------------------------------------------------------------

void set_keeper_state::told(const set_told& what) {
  auto found = running_.find(what.number);
  if (found == running_.end())
    return;
  auto& one = found->second;
  switch (what.news) {
  case set_told::what::built:
    if (one.again && !one.why && !over_)
      pattern_.shared->sets.open(one.place);
    return;
  case set_told::what::ready:
    one.ready = true;
    if (over_)
      return;
    // It was to end while the others were still connecting to it.
    if (one.why)
      return stop(one, one.why);
    pattern_.shared->sets.open(one.place);
    awaited_.erase(what.number);
    return settle_if_done();
  case set_told::what::ended:
    one.last_heard = true;
    return fail_if_over(what.number);
  case set_told::what::settled:
    if (one.why)
      self->send(one.actors->mover, drained_atom::value);
    return;
  case set_told::what::drained:
    return gone(what.number);
  }
}

void set_keeper_state::stop(running_set& one, const error& why) {
  one.why = why;
  // The others could not connect to what is gone.
  if (!one.ready || std::exchange(one.told, true))
    return;
  if (one.actors->negotiator)
    self->send(one.actors->negotiator, leave_atom::value);
  fail_if_over(one.place->number);
}

// The last schedule may come before the word that the set ends, where messages take different ways.
void set_keeper_state::fail_if_over(std::uint32_t number) {
  auto& one = running_.at(number);
  if (!one.why || !one.last_heard || !one.ready)
    return;
  if (one.actors->worker)
    self->send(one.actors->worker, generation_over{one.why});
  else
    gone(number);
}

void set_keeper_state::gone(std::uint32_t number) {
  auto ended = running_.extract(number);
  auto& one = ended.mapped();
  caf::anon_send(pattern_.post, set_left{number});
  self->send_exit(one.tree, caf::exit_reason::user_shutdown);
  pattern_.shared->sets.retire(one.place);
  awaited_.erase(number);
  settle_if_done();
  leave_if_done();
}

// ---- the end -------------------------------------------------------------------------------------

void set_keeper_state::leave(const error& why) {
  leaving_ = true;
  settle(why);
  std::vector<std::uint32_t> numbers;
  for (auto& [number, one] : running_)
    numbers.push_back(number);
  // Each may be gone at once.
  for (auto number : numbers)
    if (auto found = running_.find(number); found != running_.end()) {
      if (found->second.failed)
        abandon(number, why);
      else
        stop(found->second, why);
    }
  leave_if_done();
}

void set_keeper_state::leave_if_done() {
  if (leaving_ && running_.empty() && abandoned_.empty() && !std::exchange(left_, true))
    self->send(pattern_.member, drained_atom::value);
}

void set_keeper_state::end(const error& why) {
  if (over_)
    return;
  over_ = why;
  settle(why);
  pattern_.shared->sets.resume();
  std::vector<std::uint32_t> failed;
  for (auto& [number, one] : running_) {
    one.place->epoch.of->over(why);
    if (one.stopped)
      failed.push_back(number);
  }
  for (auto number : failed)
    abandon(number, why);
  for (auto& [number, one] : running_) {
    if (one.actors->worker)
      self->send(one.actors->worker, generation_over{why});
    if (one.actors->mover)
      self->send(one.actors->mover, generation_over{why});
  }
}

void set_keeper_state::ask_about(const processes_silent& what) {
  for (auto& [number, one] : running_)
    if (one.actors->worker)
      self->send(one.actors->worker, what);
}

void set_keeper_state::down(const caf::down_msg& what) {
  for (auto& one : abandoned_)
    one.stopped = one.stopped || one.tree == what.source;
  for (auto& [number, one] : running_)
    if (one.tree.address() == what.source) {
      one.stopped = true;
      if (over_)
        abandon(number, over_);
      else
        report_fault(one, text_of(what.reason, self->system()));
      break;
    }
  fail_doors();
}

// Doors first: nobody comes back to what is pending behind them.
void set_keeper_state::take_down(const caf::error& why) {
  end(shut_down());
  taken_down_ = why;
  while (!running_.empty())
    abandon(running_.begin()->first, over_);
  fail_doors();
}

sets_actor::behavior_type set_keeper(sets_actor::stateful_pointer<set_keeper_state> self, set_setup pattern) {
  auto& state = self->state;
  state.begin(std::move(pattern));
  return {
      [&state](const sets_changed& what) { state.change(what); },
      [&state](const sets_restarted& what) { state.restart(what); },
      [&state](const set_broken& what) { state.broke(what); },
      [&state](const set_told& what) { state.told(what); },
      [&state](const generation_ended& what) { state.leave(what.why); },
      [&state](const generation_over& what) { state.end(what.why); },
      [&state](const processes_silent& what) { state.ask_about(what); },
      [&state](retry_atom) { state.retry(); },
  };
}

} // namespace farandole
