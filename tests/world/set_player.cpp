#include "tests/world/set_player.hpp"

#include <algorithm>

#include "actors/event_loop/link_messages.hpp"
#include "actors/interfaces/generation.hpp"
#include "actors/interfaces/heartbeats.hpp"
#include "actors/interfaces/member_watcher.hpp"
#include "actors/member/message_router.hpp"
#include "actors/process_set/process_set_manager.hpp"
#include "actors/process_set/set_actors.hpp"
#include "actors/process_set/set_tree.hpp"
#include "tests/world/set_lane.hpp"

namespace farandole::testing {

namespace {

constexpr std::uint64_t player_stream = 303;
constexpr std::size_t problems_kept = 10;

settings settings_of(const set_options& options) {
  auto values = settings::built_in();
  const auto assign = [&](setting which, std::int64_t value) {
    const auto problem = values.assign(which, std::to_string(value), setting_source::environment);
    assert(!problem);
    static_cast<void>(problem);
  };
  assign(setting::fast_path, 0);
  assign(setting::stall_check_disable, 1); // with the periodic stall check no job would become idle
  assign(setting::cache_capacity, options.cache_capacity);
  assign(setting::fusion_threshold, options.fusion_threshold);
  assign(setting::cycle_time, options.cycle_time_ms);
  return values;
}

} // namespace

chronicle& set_stage::log(std::uint32_t number, std::size_t members_of_set) {
  return logs.try_emplace(number, static_cast<std::int32_t>(members_of_set)).first->second;
}

void set_stage::problem(std::string text) {
  if (problems.size() < problems_kept)
    problems.push_back(std::move(text));
}

// ---- the member ---------------------------------------------------------------------------------

set_player::set_player(caf::actor_system& system, set_stage& set_stage, std::int32_t rank)
    : system_(system), stage_(set_stage), rank_(rank),
      draw_(set_stage.play.options().seed, player_stream, static_cast<std::uint64_t>(rank)) {
  shared_->rank = rank;
  shared_->members = stage_.members;
  shared_->tree = stage_.tree;
  shared_->dynamic_sets = true;
  member_ = system.spawn([this](caf::event_based_actor* self) { return member(self); });
  trainer_ = system.spawn([this](caf::event_based_actor* self) { return trainer(self); });
  message_router_setup router_setup;
  router_setup.member = caf::actor_cast<member_actor>(member_);
  router_ = caf::actor_cast<caf::actor>(system.spawn(farandole::message_router, std::move(router_setup)));
}

// Starts the actors like the member (member.cpp).
void set_player::start(std::function<void()> link) {
  set_setup setup;
  setup.shared = shared_;
  setup.generation = 1;
  setup.settings = settings_of(stage_.play.options());
  setup.router = caf::actor_cast<message_router_actor>(router_);
  setup.member = caf::actor_cast<member_actor>(member_);
  setup.simulated_connector = [this](caf::event_based_actor* parent, const set_setup& set,
                                     set_setup::bundle_ended ended) {
    return set_lane(parent, set, std::move(ended), stage_);
  };
  const auto sets = system_.spawn(process_set_manager, setup);
  sets_ = caf::actor_cast<caf::actor>(sets);
  setup.set_state = shared_->global;
  setup.sets = sets;
  setup.ready = [me = member_] { caf::anon_send(me, ready_atom::value); };
  setup.drained = [] {};
  auto entered = [this, link = std::move(link)](const set_actors& actors) {
    worker_ = caf::actor_cast<caf::actor>(actors.client);
    caf::anon_send(router_,
                   generation_entered{1, rank_, stage_.members, stage_.tree, actors.entered(0, {}), {}});
    link();
  };
  tree_ = system_.spawn(supervisor, set_tree(setup, entered));
}

void set_player::leave() {
  caf::anon_send(worker_, leave_request{});
}

void set_player::stop() {
  shared_->sets.shut();
  shared_->global->queue->close();
  for (const auto& actor : {tree_, sets_, router_, member_, trainer_})
    caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  tree_ = member_ = trainer_ = nullptr;
  sets_ = nullptr;
  router_ = nullptr;
  worker_ = nullptr;
}

caf::behavior set_player::member(caf::event_based_actor*) {
  return {
      [this](ready_atom) { caf::anon_send(trainer_, tick_atom::value); },
      // There is no address to dial: the test creates the links.
      [](const peer_gone&) {},
      [this](const member_fault& fault) {
        stage_.problem("the leader reports a faulty member: " + fault.reason);
      },
      [this](const generation_broken& broken) {
        stage_.problem(location() + " declared its generation broken: " + broken.reason);
      },
      [this](const generation_ended& event) { caf::anon_send(sets_, event); },
      [this](drained_atom) { ++stage_.gone; },
  };
}

// ---- the trainer: changes ------------------------------------------------------------------------

caf::behavior set_player::trainer(caf::event_based_actor* self) {
  return {
      [=, this](tick_atom) {
        if (order_.empty())
          begin_action();
        else
          submit_some(self);
      },
  };
}

void set_player::begin_action() {
  const auto& program = stage_.play.program();
  if (step_ == program.size()) {
    ++stage_.finished;
    return;
  }
  const auto& action = program[step_];
  set_change change;
  switch (action.kind) {
  case set_action::type::play:
    return begin_play();
  case set_action::type::create:
    change.kind = set_change_kind::create;
    break;
  case set_action::type::remove:
    change.kind = set_change_kind::remove;
    change.id = stage_.ids.at(action.sets[0]);
    return ask(change);
  case set_action::type::differ:
    change.sets.push_back({rank_});
    return ask(change);
  case set_action::type::add:
    break;
  }
  for (auto set : action.sets)
    change.sets.push_back(stage_.play.ranks(set));
  ask(change);
}

void set_player::ask(const set_change& change) {
  auto operation = shared_->global->queue->submit(change);
  if (!operation)
    return stage_.problem(location() + ": " + operation.error().text);
  auto* raw = &**operation;
  raw->on_settled([this, raw] { answered(*raw); });
}

void set_player::answered(const operation_state& operation) {
  const auto& action = stage_.play.program()[step_];
  const auto kind = operation.problem.kind;
  const bool refused = kind == error_kind::invalid_argument || kind == error_kind::precondition;
  if (action.kind == set_action::type::differ ? !refused : kind != error_kind::none)
    stage_.problem(location() + ": a change of the process sets ended with \"" +
                   std::string(to_string(kind)) + "\": " + operation.problem.text);
  if (action.kind == set_action::type::remove) {
    if (doomed_in_flight_ != 0)
      stage_.problem(location() + ": operations are still pending in a set that has ended");
    // The first member that learns of the end erases the id, which no member uses any more.
    stage_.ids.erase(action.sets[0]);
  } else if (kind == error_kind::none && operation.outcome.sets.size() != action.sets.size()) {
    stage_.problem(location() + ": the number of created sets differs from the number of requested sets");
  } else if (kind == error_kind::none) {
    for (std::size_t i = 0; i < action.sets.size(); ++i)
      if (stage_.ids.try_emplace(action.sets[i], operation.outcome.sets[i]).first->second !=
          operation.outcome.sets[i])
        stage_.problem(location() + ": a set has another id than on other members");
  }
  next_action();
}

void set_player::next_action() {
  ++step_;
  caf::anon_send(trainer_, tick_atom::value);
}

// ---- the trainer: tensors ------------------------------------------------------------------------

void set_player::begin_play() {
  const auto& action = stage_.play.program()[step_];
  for (auto set : action.sets) {
    if (stage_.play.position(set, rank_) < 0)
      continue;
    for (std::int32_t tensor = 0; tensor < stage_.play.options().tensors; ++tensor)
      if (!stage_.play.leaves_out(step_, set, tensor, rank_))
        order_.push_back({step_, set, tensor});
  }
  for (auto left = order_.size(); left > 1; --left)
    std::swap(order_[left - 1], order_[draw_.below(left)]);
  caf::anon_send(trainer_, tick_atom::value);
}

void set_player::submit_some(caf::event_based_actor* self) {
  for (auto number = 1 + draw_.below(8); number > 0 && !order_.empty(); --number) {
    const auto next = order_.back();
    order_.pop_back();
    submit(next);
  }
  if (!order_.empty())
    self->delayed_send(self, std::chrono::microseconds(draw_.below(300)), tick_atom::value);
  else if (in_flight_ == 0)
    next_action();
}

void set_player::submit(const submitted& tensor) {
  const auto set = state_of(tensor.set);
  if (!set)
    return stage_.problem(location() + ": a set that was added does not exist");
  auto operation =
      set->queue->submit({set_play::name(tensor.tensor),
                          stage_.play.signature_of(tensor.step, tensor.set, tensor.tensor, rank_),
                          nullptr,
                          nullptr,
                          0,
                          {}});
  if (!operation)
    return stage_.problem(location() + ": " + operation.error().text);
  const bool doomed = tensor.set != 0 && stage_.play.program()[tensor.step].doomed == tensor.set;
  ++(doomed ? doomed_in_flight_ : in_flight_);
  stage_.numbers.try_emplace(tensor.set, set->number);
  auto* raw = &**operation;
  raw->on_settled([this, tensor, raw] { settled(tensor, *raw); });
}

void set_player::settled(const submitted& tensor, const operation_state& operation) {
  const auto kind = operation.problem.kind;
  const auto name = location() + ", set " + std::to_string(tensor.set) + ", " + operation.name;
  const auto members = stage_.play.ranks(tensor.set).size();
  stage_.log(stage_.numbers.at(tensor.set), members)
      .ended(tensor.step, static_cast<std::size_t>(tensor.tensor), kind, name);
  if (!stage_.play.allows(tensor.step, tensor.set, tensor.tensor, kind))
    stage_.problem(name + " ended \"" + std::string(to_string(kind)) + "\": " + operation.problem.text);
  const bool doomed = tensor.set != 0 && stage_.play.program()[tensor.step].doomed == tensor.set;
  auto& left = doomed ? doomed_in_flight_ : in_flight_;
  // Operations of a set that ends do not delay the next action.
  if (--left == 0 && !doomed && order_.empty() && step_ == tensor.step)
    next_action();
}

std::shared_ptr<shared_set_state> set_player::state_of(std::size_t set) const {
  return set == 0 ? shared_->global : shared_->sets.find(stage_.ids.at(set));
}

std::string set_player::location() const {
  return "rank " + std::to_string(rank_) + ", step " + std::to_string(step_);
}

} // namespace farandole::testing
