#include "tests/world/player.hpp"

#include <algorithm>
#include <utility>

#include "actors/interfaces/generation.hpp"
#include "actors/interfaces/heartbeats.hpp"
#include "actors/interfaces/stalls.hpp"
#include "actors/process_set/set_client.hpp"
#include "collectives/operation.hpp"

namespace farandole::testing {

namespace {

constexpr std::uint64_t player_stream = 99;
using left_join_atom = caf::atom_constant<caf::atom("leftjoin")>;

} // namespace

player::player(caf::actor_system& system, stage& stage, std::int32_t rank, const caf::actor& router,
               const caf::actor& watcher)
    : stage_(stage), rank_(rank),
      draw_(stage.play.options().seed, player_stream, static_cast<std::uint64_t>(rank)) {
  const auto members = stage.play.options().members;
  submissions_ = std::make_shared<submission_queue>(
      0, members, 65536, [this] { caf::anon_send(worker_, doorbell_atom::value); });
  lane_ = system.spawn([this](caf::event_based_actor* self) { return lane(self); });
  trainer_ = system.spawn([this](caf::event_based_actor* self) { return trainer(self); });
  set_client_setup setup;
  setup.queue = submissions_;
  setup.self = {1, 0, rank};
  setup.leader = 0;
  setup.rank = rank;
  setup.members = members;
  setup.router = caf::actor_cast<envelope_actor>(router);
  setup.connector = caf::actor_cast<path_connector_actor>(lane_);
  setup.member = caf::actor_cast<set_client_watcher_actor>(watcher);
  worker_ = system.spawn(farandole::set_client, std::move(setup));
}

void player::start() {
  begin_step();
  caf::anon_send(trainer_, tick_atom::value);
}

void player::stop() {
  submissions_->close();
  for (const auto& actor : {lane_, trainer_, caf::actor_cast<caf::actor>(worker_)})
    caf::anon_send_exit(actor, caf::exit_reason::kill);
  lane_ = trainer_ = nullptr;
  worker_ = nullptr;
}

// ---- the lane -----------------------------------------------------------------------------------

caf::behavior player::lane(caf::event_based_actor* self) {
  return {
      [=, this](const lane_task_ptr& task) {
        queue_.push_back({std::move(*task), joined_});
        if (queue_.size() == 1)
          run_next(self);
      },
      [=, this](tick_atom) { finish(self); },
      [this](left_join_atom) { joined_ = false; },
  };
}

void player::run_next(caf::event_based_actor* self) {
  auto& first = queue_.front();
  stage_.log.ran(rank_, *first.task, first.may_stand_in);
  self->delayed_send(self, std::chrono::microseconds(5 + draw_.below(100)), tick_atom::value);
}

void player::finish(caf::event_based_actor* self) {
  auto done = std::move(queue_.front().task);
  queue_.pop_front();
  done->settle({});
  if (rank_ == 0)
    self->send(stage_.scheduler, bundle_finished{done->bundle.sequence});
  if (!queue_.empty())
    run_next(self);
}

// ---- the trainer --------------------------------------------------------------------------------

caf::behavior player::trainer(caf::event_based_actor* self) {
  return {[=, this](tick_atom) { submit_some(self); }};
}

void player::begin_step() {
  stage_.in_last_step += step_ + 1 == stage_.play.steps();
  if (step_ > stage_.furthest && stage_.entered)
    stage_.entered(stage_.furthest = step_);
  if (!stage_.play.takes_part(step_, rank_))
    return;
  for (std::int32_t tensor = 0; tensor < stage_.play.options().tensors; ++tensor)
    if (const auto group = stage_.play.group_of(tensor); group < 0 || group == tensor)
      order_.push_back(tensor);
  if (stage_.play.options().in_order)
    return std::reverse(order_.begin(), order_.end());
  for (auto left = order_.size(); left > 1; --left)
    std::swap(order_[left - 1], order_[draw_.below(left)]);
}

void player::submit_some(caf::event_based_actor* self) {
  for (auto& operation : std::exchange(regretted_, {}))
    submissions_->withdraw(*operation);
  if (step_ == stage_.play.steps())
    return;
  const auto& pace = stage_.play.options();
  for (auto number = 1 + draw_.below(pace.at_once); number > 0 && !order_.empty(); --number) {
    const auto tensor = order_.back();
    order_.pop_back();
    if (stage_.play.group_of(tensor) == tensor)
      submit_group(tensor);
    else
      submit(tensor);
  }
  if (!order_.empty() || !regretted_.empty())
    self->delayed_send(self, std::chrono::microseconds(draw_.below(pace.between_us)), tick_atom::value);
  else if (in_flight_ == 0)
    end_step();
}

// The name that the bindings would give the tensor.
std::string player::name_of(std::int32_t tensor) {
  if (!stage_.play.options().unnamed)
    return stage_.play.name(tensor);
  const auto kind = row_of(stage_.play.signature_of(step_, tensor, rank_).operation).name;
  auto name = unnamed_.next_name(0, kind, {0, submissions_->joins()});
  unnamed_.accepted(0, kind);
  return name;
}

void player::submit(std::int32_t tensor) {
  const auto name = name_of(tensor);
  const auto splits = stage_.play.splits(step_, tensor, rank_);
  submission wanted{name, stage_.play.signature_of(step_, tensor, rank_), nullptr, nullptr, 0, splits};
  wanted.absent = stage_.play.absent(step_, tensor, rank_);
  auto operation = submissions_->submit(wanted);
  if (operation)
    watch(tensor, std::move(*operation));
  else
    stage_.log.problem("submit: " + operation.error().text);
}

void player::submit_group(std::int32_t first) {
  std::vector<std::string> names;
  for (auto tensor = first; tensor < first + 4; ++tensor)
    names.push_back(stage_.play.name(tensor));
  std::vector<submission> submissions;
  for (auto tensor = first; tensor < first + 4; ++tensor) {
    submissions.push_back({names[static_cast<std::size_t>(tensor - first)],
                           stage_.play.signature_of(step_, tensor, rank_),
                           nullptr,
                           nullptr,
                           0,
                           {}});
    submissions.back().absent = stage_.play.absent(step_, tensor, rank_);
  }
  auto operations = submissions_->submit_group(submissions);
  if (!operations)
    return stage_.log.problem("submit_group: " + operations.error().text);
  for (auto& operation : *operations)
    watch(first++, std::move(operation));
}

void player::watch(std::int32_t tensor, operation_state_ptr operation) {
  ++in_flight_;
  if (stage_.play.taken_back(step_, tensor, rank_))
    regretted_.push_back(operation);
  auto* raw = &*operation;
  raw->on_settled([this, tensor, raw] { settled(tensor, *raw); });
}

void player::settled(std::int32_t tensor, const operation_state& operation) {
  const auto kind = operation.problem.kind;
  const auto location =
      "rank " + std::to_string(rank_) + ", step " + std::to_string(step_) + ", " + operation.name;
  stage_.log.ended(static_cast<std::size_t>(step_), static_cast<std::size_t>(tensor), kind, location);
  if (!stage_.play.allows(step_, tensor, kind))
    stage_.log.problem(location + " ended \"" + std::string(to_string(kind)) +
                       "\": " + operation.problem.text);
  if (kind == error_kind::none)
    check_result(tensor, operation.outcome, location);
  if (--in_flight_ == 0 && order_.empty())
    caf::anon_send(trainer_, tick_atom::value);
}

void player::check_result(std::int32_t tensor, const result& outcome, const std::string& location) {
  stage_.without_result += outcome.kind == result_kind::none;
  stage_.as_rows += outcome.kind == result_kind::rows;
  if (outcome.kind != stage_.play.result_of(step_, tensor, rank_))
    stage_.log.problem(location + " has a result of the kind " +
                       std::to_string(static_cast<int>(outcome.kind)));
  if (outcome.kind == result_kind::rows && outcome.first_dims.at(static_cast<std::size_t>(rank_)) != 0)
    stage_.log.problem(location + " has rows of this rank, which is absent");
}

void player::join() {
  joined_ = true;
  signature signature;
  signature.operation = operation::join;
  auto operation = submissions_->submit({"join.noname", signature, nullptr, nullptr, 0, {}});
  if (!operation)
    return stage_.log.problem("join: " + operation.error().text);
  auto* raw = &**operation;
  raw->on_settled([this, raw] {
    const auto last = raw->outcome.last_rank;
    if (stage_.last_to_join >= 0 && stage_.last_to_join != last)
      stage_.log.problem("rank " + std::to_string(rank_) + " is told that rank " + std::to_string(last) +
                         " joined last, but other ranks are told that rank " +
                         std::to_string(stage_.last_to_join) + " did");
    stage_.last_to_join = last;
    // The message arrives after the bundles in which this member has joined.
    caf::anon_send(lane_, left_join_atom::value);
    ++step_;
    begin_step();
    caf::anon_send(trainer_, tick_atom::value);
  });
}

void player::end_step() {
  if (step_ == stage_.play.joined_step()) {
    if (!joined_)
      join();
    return;
  }
  if (++step_ == stage_.play.steps()) {
    ++stage_.finished;
    return;
  }
  begin_step();
  caf::anon_send(trainer_, tick_atom::value);
}

} // namespace farandole::testing
