#include "tests/world/elastic_worker.hpp"

#include <algorithm>
#include <utility>

#include "actors/interfaces/generation.hpp"
#include "actors/interfaces/member_watcher.hpp"
#include "actors/member/member.hpp"
#include "actors/process_set/set_tree.hpp"

namespace farandole::testing {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::uint64_t worker_stream = 404;
constexpr int tries_in_a_row = 100; // as in loop.py
constexpr microseconds first_look{500};
constexpr milliseconds longest_look{100};

/// A call at a later virtual time.
struct task {
  std::shared_ptr<std::function<void()>> run;
};

} // namespace

} // namespace farandole::testing

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::testing::task)

namespace farandole::testing {

elastic_worker::elastic_worker(elastic_stage& stage, std::int32_t slot, std::string host,
                               std::function<void(const process_end&)> ended)
    : stage_(stage), slot_(slot), host_(std::move(host)), ended_(std::move(ended)),
      draw_(stage.options.seed, worker_stream, static_cast<std::uint64_t>(slot)) {
  if (stage.log.has_transcript())
    member_log_ = std::make_unique<logger>(
        log_options{log_level::warning, true}, [this](log_level, std::string_view line) {
          stage_.log.note([&] { return description() + ": " + std::string(line); });
        });
  const running_process scope(stage.world.all_processes(), id_of(slot_));
  clock_ = stage.system.spawn([this](caf::event_based_actor*) {
    return caf::behavior{[this](const task& task) {
      if (!gone_)
        (*task.run)();
    }};
  });
}

elastic_worker::~elastic_worker() {
  drop_runtime();
  caf::anon_send_exit(clock_, caf::exit_reason::kill);
}

void elastic_worker::after(duration when, then continuation) {
  caf::delayed_anon_send(clock_, when,
                         task{std::make_shared<std::function<void()>>(std::move(continuation))});
}

// Drops the continuation if its runtime is gone by then.
void elastic_worker::think(then continuation) {
  after(microseconds(slow_ * draw_.below(stage_.options.think_us)),
        [this, number = incarnation_, action = std::move(continuation)] {
          if (number == incarnation_)
            action();
        });
}

std::string elastic_worker::description() const {
  return "slot " + std::to_string(slot_);
}

std::string elastic_worker::location() const {
  return "generation " + std::to_string(last_generation_) + ", " + description() + ", round " +
         std::to_string(state_.round);
}

// ---- the runtime (actors/member/member_runtime.cpp) -----------------------------------------------------

void elastic_worker::begin() {
  tries_ = tries_in_a_row;
  patience_ = stage_.system.clock().now() + stage_.values.duration(setting::elastic_timeout);
  start_runtime();
}

// Like runtime::start(): retries while other members are lost during the start, within the elastic timeout.
void elastic_worker::start_runtime() {
  deadline_ = std::make_shared<join_deadline>(true, stage_.values.duration(setting::elastic_timeout),
                                              stage_.system.clock().now());
  starts_.emplace(true, deadline_, stage_.values.cited(setting::elastic_timeout));
  init();
}

void elastic_worker::init() {
  ++incarnation_;
  if (state_generation_ == 0)
    stage_.log.cut_off(slot_); // a new member without the state, even if it was welcomed before
  shared_ = std::make_shared<shared_member_state>();
  start_ = shared_->started.get_future();
  end_ = shared_->ended.get_future();
  const auto me = id_of(slot_);
  member_setup setup;
  setup.shared = shared_;
  setup.settings = stage_.values;
  setup.own_hello.slot = slot_;
  setup.own_hello.size = stage_.options.processes;
  setup.own_hello.host = stage_.options.one_machine ? "one machine" : host_;
  setup.own_hello.host_name = host_;
  setup.own_hello.process = 1000 + slot_;
  setup.own_hello.progress = progress_;
  setup.own_hello.keeps_sets = goes_on_;
  setup.own_hello.state_generation = state_generation_;
  setup.own_hello.epoch = *obeyed_;
  setup.obeyed = obeyed_;
  setup.deadline = deadline_;
  setup.log = member_log_.get();
  setup.rendezvous_ip = stage_.rendezvous_ip;
  setup.rendezvous_port = stage_.rendezvous_port;
  setup.bind_ip = simulated_net::address_of(me);
  setup.links.simulated = stage_.net.links_of(me);
  setup.heartbeats = stage_.options.heartbeats;
  setup.simulate = [&plane = stage_.plane, me](set_setup& settings) { plane.simulate(settings, me); };
  stage_.log.note(
      [&] { return description() + " sends a hello with progress " + std::to_string(progress_); });
  member_ = caf::actor_cast<caf::actor>(stage_.system.spawn(member_root, std::move(setup)));
  await_start(first_look);
}

void elastic_worker::await_start(duration wait) {
  after(wait, [this, wait] {
    if (start_.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
      started(start_.get());
    else if (deadline_->over(stage_.system.clock().now()))
      started({error_kind::timed_out, "the job did not come together within the elastic timeout"});
    else
      await_start(std::min<duration>(2 * wait, longest_look));
  });
}

void elastic_worker::started(const error& problem) {
  if (problem)
    return could_not_start(problem);
  const bool obeys_another = stage_.log.is_doubled() && *obeyed_ > last_epoch_;
  if (shared_->generation <= last_generation_ && !obeys_another)
    stage_.log.problem(location() + " has entered generation " + std::to_string(shared_->generation) +
                       " after generation " + std::to_string(last_generation_));
  last_generation_ = shared_->generation;
  in_since_ = stage_.world.now();
  last_epoch_ = *obeyed_;
  set_.reset();
  create_initial_sets();
}

void elastic_worker::could_not_start(const error& problem) {
  stage_.log.note([&] { return description() + " could not join: " + problem.text; });
  leave([this, problem] {
    const auto reported = starts_->after(problem, stage_.system.clock().now());
    if (!reported)
      return init();
    // The handling of the loop in Python; the first init() is called outside the loop.
    const bool lost_another = reported.kind == error_kind::disconnected ||
                              reported.kind == error_kind::unknown || reported.kind == error_kind::shut_down;
    if (goes_on_ && lost_another && --tries_ > 0 && stage_.system.clock().now() < patience_)
      return start_runtime();
    const bool dismissed = reported.kind == error_kind::dismissed;
    if (!dismissed)
      failure_ = reported;
    exit(dismissed && coming_.reset ? 0 : 1, 0);
  });
}

// init() has succeeded.
void elastic_worker::joined() {
  progress_ = 0;
  think([this] { enter(); });
}

void elastic_worker::leave(const then& continuation) {
  ++incarnation_;
  caf::anon_send(member_, leave_request{});
  const auto patience = 2 * stage_.values.duration(setting::shutdown_timeout) + std::chrono::seconds{1};
  await_end(first_look, stage_.system.clock().now() + patience, continuation);
}

void elastic_worker::await_end(duration wait, caf::actor_clock::time_point deadline,
                               const then& continuation) {
  after(wait, [=, this] {
    const bool over = end_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    if (!over && stage_.system.clock().now() < deadline)
      return await_end(std::min<duration>(2 * wait, longest_look), deadline, continuation);
    drop_runtime();
    stage_.log.left(slot_);
    continuation();
  });
}

void elastic_worker::drop_runtime() {
  if (!shared_)
    return;
  set_.reset();
  if (shared_->global->queue)
    shared_->global->queue->close();
  shared_->sets.shut();
  caf::anon_send_exit(member_, caf::exit_reason::user_shutdown);
  member_ = nullptr;
  shared_ = nullptr;
}

void elastic_worker::check_settled() {
  for (const auto& asked : asked_)
    if (asked->settled != 1)
      stage_.log.problem(description() + ": " + asked->name + " was settled " +
                         std::to_string(asked->settled) + " times instead of once");
}

// ---- process sets (bindings/cxx/runtime.cpp) -----------------------------------------------------

// Every member requests the sets of the start, even if there are none, so that no member continues before all
// are connected. With sets_every there is one set of all ranks but 0.
void elastic_worker::create_initial_sets() {
  set_change change;
  change.kind = set_change_kind::create;
  if (stage_.options.sets_every > 0 && shared_->members.size() >= 3) {
    change.sets.emplace_back();
    for (std::int32_t rank = 1; rank < static_cast<std::int32_t>(shared_->members.size()); ++rank)
      change.sets.back().push_back(rank);
  }
  auto operation = shared_->global->queue->submit(change);
  if (!operation)
    return sets_created(operation.error());
  auto* raw = &**operation;
  raw->on_settled([this, kept = *operation, number = incarnation_] {
    if (number != incarnation_ || gone_)
      return;
    // The set still exists: the actor that opened it makes this call.
    if (!kept->problem && !kept->outcome.sets.empty())
      set_ = shared_->sets.find(kept->outcome.sets.at(0));
    after(microseconds(1 + draw_.below(20)), [this, number, problem = kept->problem] {
      if (number == incarnation_)
        sets_created(problem);
    });
  });
  const auto current_time = stage_.system.clock().now();
  after(starts_->founding_until(current_time, stage_.values.duration(setting::start_timeout)) - current_time,
        [this, number = incarnation_] {
          if (number == incarnation_ && founding_)
            sets_created({error_kind::timed_out, "the initial process sets were not created in time"});
        });
  founding_ = true;
}

// A job that the other members have already left counts as joined, unless a set was requested.
void elastic_worker::sets_created(const error& problem) {
  founding_ = false;
  const bool may_do_without = problem.kind != error_kind::disconnected &&
                              problem.kind != error_kind::invalid_argument &&
                              problem.kind != error_kind::timed_out &&
                              (stage_.options.sets_every == 0 || shared_->members.size() < 3);
  if (problem && !may_do_without)
    return could_not_start(problem);
  joined();
}

// ---- the loop (loop.py) --------------------------------------------------------------------------

void elastic_worker::enter() {
  goes_on_ = true;
  bool sync_now = coming_.sync;
  if (coming_.reset) {
    interrupted_for_ = 0;
    sync_now = shared_->must_sync;
  }
  sync_now ? sync() : train();
}

void elastic_worker::sync() {
  ask(*shared_->global->queue, 0, "sync", operation::broadcast, reduce_op::sum, {saved_.round, saved_.digest},
      [this](const asked& asked, const error& problem) {
        if (problem)
          return failed(problem);
        state_ = saved_ = {asked.output[0], asked.output[1]};
        train();
      });
}

void elastic_worker::train() {
  state_generation_ = last_generation_;
  stage_.log.trains(set(0), slot_, state_);
  begin_round();
}

void elastic_worker::begin_round() {
  // A member that ends also ends the generation and its pending operations, so the last operation is a
  // commit.
  if (finished()) {
    stage_.log.leaves(slot_);
    return leave([this] { exit(0, 0); });
  }
  const auto tensors = static_cast<std::size_t>(stage_.options.tensors) + (in_set() ? 1 : 0);
  order_.clear();
  for (std::size_t i = 0; i < tensors; ++i)
    order_.push_back(i);
  for (auto left = order_.size(); left > 1; --left)
    std::swap(order_[left - 1], order_[draw_.below(left)]);
  in_flight_ = tensors;
  digest_ = 0;
  think([this] { submit_next(); });
}

void elastic_worker::submit_next() {
  const auto tensor = order_.back();
  order_.pop_back();
  const auto sets = tensor == static_cast<std::size_t>(stage_.options.tensors);
  auto check = [this, tensor, sets](const asked& asked, const error& problem) {
    if (problem)
      return failed(problem);
    const auto expected = sum(state_.round, tensor, sets);
    if (asked.output[0] != expected)
      stage_.log.problem(location() + ": " + asked.name + " has the result " +
                         std::to_string(asked.output[0]) + " instead of " + std::to_string(expected));
    if (!sets)
      digest_ += mix(static_cast<std::int64_t>(tensor), asked.output[0]);
    if (--in_flight_ == 0)
      end_round();
  };
  auto& queue = sets ? *set_->queue : *shared_->global->queue;
  const auto number = incarnation_;
  ask(queue, sets ? set_->number : 0, "tensor." + std::to_string(tensor), operation::allreduce,
      reduce_op::sum, {part_of(slot_, state_.round, tensor)}, check);
  if (number == incarnation_ && !order_.empty())
    think([this] { submit_next(); });
}

void elastic_worker::end_round() {
  state_.digest = mix(state_.digest, digest_);
  ++state_.round;
  if (state_.round % stage_.options.commit_every == 0 || finished())
    commit();
  else
    begin_round();
}

void elastic_worker::commit() {
  saved_ = state_;
  progress_ += 2;
  const auto [changes, removals_only] = shared_->changes.waiting();
  const std::int64_t has_newcomers = changes > 0 && !removals_only ? 1 : 0;
  ask(*shared_->global->queue, 0, "elastic.changes", operation::allreduce, reduce_op::max,
      {static_cast<std::int64_t>(changes), has_newcomers}, [this](const asked& asked, const error& problem) {
        if (problem)
          return failed(problem);
        stage_.log.committed(set(0), state_);
        if (asked.output[0] <= interrupted_for_)
          return begin_round();
        interrupted_for_ = asked.output[0];
        interrupted(asked.output[1] == 0);
      });
}

void elastic_worker::interrupted(bool removals_only) {
  stage_.log.note([&] {
    return description() + " leaves generation " + std::to_string(last_generation_) + " as planned";
  });
  coming_ = {true, !removals_only};
  stage_.log.leaves(slot_);
  regroup();
}

void elastic_worker::failed(const error& problem) {
  stage_.log.note([&] { return description() + " returns to its last commit: " + problem.text; });
  state_ = saved_;
  progress_ |= 1;
  coming_ = {true, true};
  regroup();
}

void elastic_worker::regroup() {
  leave([this] { begin(); });
}

} // namespace farandole::testing
