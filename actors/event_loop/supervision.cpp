#include "actors/event_loop/supervision.hpp"

#include <algorithm>
#include <cassert>

namespace farandole {

namespace {

/// INTERNAL: the stop timeout of a child has expired. Carries the position of the child and the number of its start.
using overdue_atom = caf::atom_constant<caf::atom("overdue")>;

} // namespace

// ---- rules ----

supervision_rules::supervision_rules(std::vector<std::string> names, restart_strategy strategy,
                                     restart_intensity intensity)
    : names_(std::move(names)), strategy_(strategy), intensity_(intensity), running_(names_.size(), false) {}

supervision_rules::step supervision_rules::start_all() {
  phase_ = phase::running;
  step next;
  for (std::size_t i = 0; i < running_.size(); ++i) {
    running_[i] = true;
    next.start.push_back(i);
  }
  return next;
}

supervision_rules::step supervision_rules::begin() {
  return start_all();
}

/// Returns the step that stops the next child, or, once no child runs, the step that follows: restart all or end.
supervision_rules::step supervision_rules::stop_next() {
  assert(phase_ != phase::running);
  for (std::size_t i = running_.size(); i-- > 0;)
    if (running_[i])
      return {.stop = {i}, .give_up = give_up_};
  if (phase_ == phase::restarting)
    return start_all();
  return {.done = true, .give_up = give_up_};
}

bool supervision_rules::too_many(instant current_time) {
  while (!restarts_.empty() && current_time - restarts_.front() >= intensity_.period)
    restarts_.pop_front();
  restarts_.push_back(current_time);
  return restarts_.size() > intensity_.limit;
}

supervision_rules::step supervision_rules::ended(std::size_t child, const std::string& reason,
                                                 instant current_time) {
  assert(running_[child]);
  running_[child] = false;
  // While children are being stopped one after the other, the end of one leads to the stop of the next. A child that
  // ends by itself in the meantime does not need to be stopped.
  if (phase_ != phase::running)
    return stop_next();
  if (too_many(current_time)) {
    give_up_ = "'" + names_[child] + "' ended (" + reason + ")";
    if (intensity_.limit > 0)
      give_up_ +=
          ", the " + std::to_string(restarts_.size()) + "th end within " +
          std::to_string(std::chrono::duration_cast<std::chrono::seconds>(intensity_.period).count()) +
          " s, more than the " + std::to_string(intensity_.limit) + " restarts allowed";
    phase_ = phase::stopping;
    return stop_next();
  }
  if (strategy_ == restart_strategy::one_for_one) {
    running_[child] = true;
    return {.start = {child}};
  }
  phase_ = phase::restarting;
  return stop_next();
}

supervision_rules::step supervision_rules::stop() {
  auto before = std::exchange(phase_, phase::stopping);
  // If a child is being stopped already, its end leads to the next step.
  return before == phase::running ? stop_next() : step{.give_up = give_up_};
}

// ---- the actor ----

void supervisor_state::begin(supervisor_spec wanted) {
  spec_ = std::move(wanted);
  std::vector<std::string> names;
  for (const auto& child : spec_.children)
    names.push_back(child.name);
  rules_.emplace(std::move(names), spec_.strategy, spec_.intensity);
  children_.resize(spec_.children.size());
  follow(rules_->begin());
}

void supervisor_state::stop(const caf::error& reason) {
  if (rules_->stopping())
    return;
  exit_ = reason;
  follow(rules_->stop());
}

void supervisor_state::child_down(const caf::down_msg& message) {
  auto gone = std::find_if(children_.begin(), children_.end(), [&](const running_child& child) {
    return child.handle && child.handle.address() == message.source;
  });
  if (gone == children_.end())
    return;
  gone->handle = nullptr;
  follow(rules_->ended(static_cast<std::size_t>(gone - children_.begin()),
                       self_->system().render(message.reason), now(self_)));
}

caf::result<caf::actor> supervisor_state::child(const std::string& wanted) const {
  for (std::size_t i = 0; i < children_.size(); ++i)
    if (spec_.children[i].name == wanted && children_[i].handle)
      return children_[i].handle;
  return caf::make_error(caf::sec::runtime_error, "'" + wanted + "' does not run");
}

void supervisor_state::overdue(std::size_t index, std::uint64_t start) {
  auto& child = children_[index];
  if (child.handle && child.start == start)
    self_->send_exit(child.handle, caf::exit_reason::kill);
}

void supervisor_state::follow(const supervision_rules::step& step) {
  for (auto index : step.stop) {
    auto& child = children_[index];
    self_->send_exit(child.handle, caf::exit_reason::user_shutdown);
    self_->delayed_send(self_, spec_.stop_timeout, overdue_atom::value, static_cast<std::uint64_t>(index),
                        child.start);
  }
  for (auto index : step.start) {
    auto& child = children_[index];
    child.start = ++starts_;
    child.handle = spec_.children[index].start(self_);
    self_->monitor(child.handle);
    if (spec_.started)
      spec_.started(spec_.children[index].name, child.handle);
  }
  if (step.done)
    self_->quit(step.give_up.empty() ? exit_ : caf::make_error(caf::sec::runtime_error, step.give_up));
}

caf::behavior supervisor(caf::stateful_actor<supervisor_state>* self, const supervisor_spec& spec) {
  self->set_down_handler([self](const caf::down_msg& message) { self->state.child_down(message); });
  self->set_exit_handler([self](const caf::exit_msg& message) { self->state.stop(message.reason); });
  self->state.begin(spec);
  return {
      [self](child_atom, const std::string& name) { return self->state.child(name); },
      [self](overdue_atom, std::uint64_t index, std::uint64_t start) { self->state.overdue(index, start); },
  };
}

} // namespace farandole
