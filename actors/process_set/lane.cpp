#include "actors/process_set/lane.hpp"

#include <csignal>
#include <new>
#include <pthread.h>

#include "actors/process_set/split_exchange.hpp"
#include "actors/submission/growing_pause.hpp"
#include "actors/submission/nvtx_ranges.hpp"
#include "actors/submission/recorded_operation.hpp"
#include "collectives/operation.hpp"
#include "collectives/transport/bundle_bytes.hpp"
#include "collectives/transport/registry/data_paths.hpp"

namespace farandole {

namespace {

// Text to append to an operation's error. `silent` describes the members whose processes make no progress.
std::string lateness_notice(bool late, const std::string& silent) {
  if (late && silent.empty())
    return "; no member is known whose process makes no progress, so one is late or stuck in something else";
  return silent;
}

/// How often the words of a device are looked at while it works.
constexpr std::chrono::microseconds poll_interval{50};

// Allocates the outputs whose size is known only now. Each operation owns its output.
error allocate_outputs(lane_task& task, result_memory& memory) {
  if (!row_of(task.bundle.operation).has_rows())
    return {};
  for (std::size_t i = 0; i < task.bundle.parts.size(); ++i) {
    if (task.bundle.parts[i].output)
      continue;
    auto& operation = *task.operations[i];
    if (auto problem = operation.own_output(memory, std::move(operation.outcome.first_dims)))
      return problem;
    task.bundle.parts[i].output = operation.owned.get();
    task.bundle.parts[i].owns_output = true;
  }
  return {};
}

} // namespace

// The lane may be gone already. If the set was restarted, the restart is the reason.
lane_task::~lane_task() {
  std::erase_if(operations, [](const operation_state_ptr& operation) { return !operation; });
  if (auto runs = operations.empty() ? nullptr : target_lane.lock())
    runs->adopt(std::exchange(operations, {}));
  const auto reason = operations.empty() ? error{} : operations.front()->epoch.refuse();
  settle(reason ? reason
                : error{error_kind::disconnected, "the generation ended before this operation was run"});
}

void lane_task::settle(const error& reason) {
  for (auto& operation : operations)
    if (auto unsettled = std::exchange(operation, {}); unsettled && !unsettled->settled())
      unsettled->settle(reason);
}

std::string lane_name(std::uint32_t set_id) {
  constexpr std::size_t limit = 15;
  return set_id == 0 ? "fd-lane" : ("fd-lane/" + std::to_string(set_id)).substr(0, limit);
}

nccl_runner::options lane_thread::nccl_options() {
  auto settings = std::move(wiring_.nccl);
  settings.while_waiting = [this] { release_ended(); };
  return settings;
}

lane_thread::lane_thread(wiring wires)
    : wiring_(std::move(wires)),
      launched_(wiring_.finished, wiring_.ledger, {wiring_.operation_timeout, wiring_.timeout_citation}),
      nccl_(nccl_options()), staged_(wiring_.staging, {.rank = wiring_.rank,
                                                       .operation_timeout = wiring_.operation_timeout,
                                                       .while_waiting = [this] { release_ended(); }}) {
  wiring_.launches->open(wiring_.number);
  // The thread inherits a mask that blocks every signal, so signals go to the framework's threads. It also inherits
  // the core to which the member has pinned the event loop, which makes the lanes.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { loop(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void lane_thread::stop() {
  abort({error_kind::shut_down, "Farandole has been shut down; call init() again to go on"});
  stop_ = true;
  push([] {});
  if (thread_.joinable())
    thread_.join();
}

void lane_thread::finish() {
  push([this] { stop_ = true; });
}

void lane_thread::run(std::unique_ptr<lane_task> task) {
  // std::function must be copyable; the task is not.
  auto shared = std::make_shared<std::unique_ptr<lane_task>>(std::move(task));
  push([this, shared] { execute(**shared); });
}

void lane_thread::call(std::function<void()> function) {
  push(std::move(function));
}

void lane_thread::push(std::function<void()> function) {
  {
    std::lock_guard guard(mutex_);
    queue_.push_back(std::move(function));
  }
  queued_.fetch_add(1, std::memory_order_seq_cst);
  queued_.notify_one();
}

void lane_thread::abort(error reason) {
  std::vector<operation_state_ptr> orphans;
  {
    std::lock_guard guard(mutex_);
    if (!aborted_)
      aborted_ = reason;
    orphans.swap(orphans_);
  }
  abort_arrived_.notify_all();
  wiring_.launches->close(wiring_.number);
  token_.raise();
  for (auto& orphan : orphans)
    orphan->settle(reason);
}

void lane_thread::adopt(std::vector<operation_state_ptr> orphans) {
  error reason;
  {
    std::lock_guard guard(mutex_);
    reason = aborted_;
    if (!reason)
      orphans_.insert(orphans_.end(), std::make_move_iterator(orphans.begin()),
                      std::make_move_iterator(orphans.end()));
  }
  if (reason)
    for (auto& orphan : orphans)
      orphan->settle(reason);
}

error lane_thread::reason() const {
  std::lock_guard guard(mutex_);
  return aborted_;
}

void lane_thread::use(std::unique_ptr<data_paths> paths) {
  paths_ = std::move(paths);
}

void lane_thread::loop() {
  pthread_setname_np(pthread_self(), wiring_.name.c_str());
  while (!stop_) {
    auto queued_count = queued_.load(std::memory_order_seq_cst);
    std::vector<std::function<void()>> functions;
    {
      std::lock_guard guard(mutex_);
      functions.swap(queue_);
    }
    for (auto& function : functions)
      function();
    // The words that devices write wake no thread, so they are polled.
    if (release_ended() || !functions.empty())
      continue;
    if (launched_.empty())
      queued_.wait(queued_count);
    else if (!give_up_overdue())
      std::this_thread::sleep_for(poll_interval);
  }
  wiring_.launches->close(wiring_.number);
  give_up(reason());
  nccl_.close();
  // The paths belong to this thread, so this thread destroys them.
  paths_.reset();
}

void lane_thread::execute(lane_task& task) {
  release_ended();
  // Saved because run_work() overwrites it with the lane's own number.
  const auto sequence = running_ = task.bundle.sequence;
  const auto bytes = bytes_of_inputs(task.bundle);
  auto cause = reason();
  if (!cause && !paths_)
    cause = {error_kind::unknown, "the data paths are not connected"};
  device_work on_device;
  bool waits_for_members = false;
  if (!cause) {
    auto result = move(task);
    on_device = std::move(result.device);
    waits_for_members = result.waits_for_members;
    cause = cause_of(std::move(result.error));
  }
  task.turn.end();
  launched_bundle bundle{sequence, bytes};
  bundle.progress = on_device.progress;
  bundle.waits_for_members = waits_for_members;
  if (!bundle.progress.ended()) {
    bundle.larger_side = larger_side(task.bundle);
    for (auto& operation : task.operations)
      if (operation) {
        operation->on_device = on_device;
        bundle.operations.push_back(operation);
      }
    if (!cause && !wiring_.settles_at_launch)
      cause = cause_of(wait_for_device(bundle));
  }
  bundle.cause = cause;
  launched_.add(std::move(bundle), [&] { task.settle(cause); });
  if (cause && cause.kind != error_kind::unimplemented)
    give_up(cause);
  while (launched_.size() >= most_launched)
    wait_for_oldest();
}

// ---- bundles on which a device still works --------------------------------------------------------

error lane_thread::wait_for_device(const launched_bundle& bundle) const {
  auto deadline = launched_.deadline_of(bundle);
  failure_questions questions;
  for (growing_pause pause; !bundle.progress.ended(); pause.wait()) {
    const auto current_time = std::chrono::steady_clock::now();
    if (auto problem = overdue(bundle, deadline, current_time, reason(), wiring_.timeout_citation))
      return explained(std::move(problem));
    if (questions.is_time(current_time))
      if (auto problem = failure_of_devices())
        return problem;
  }
  return {};
}

bool lane_thread::release_ended() {
  if (!launched_.release_ended())
    return false;
  questions_.restart();
  return true;
}

// If it does not end: its callers have been told that it ended well, so the set fails, and their next call raises the
// error.
void lane_thread::wait_for_oldest() {
  for (growing_pause pause; !release_ended(); pause.wait())
    if (give_up_overdue())
      return;
}

bool lane_thread::give_up_overdue() {
  const auto current_time = std::chrono::steady_clock::now();
  auto problem = explained(launched_.overdue(current_time, reason()));
  if (!problem && questions_.is_time(current_time))
    problem = failure_of_devices();
  if (!problem)
    return false;
  give_up(cause_of(std::move(problem)));
  return true;
}

// In this order: once NCCL's kernels have been aborted, their bundles look as if they had ended well.
void lane_thread::give_up(const error& reason) {
  launched_.give_up(reason);
  nccl_.abort();
}

error lane_thread::failure_of_devices() const {
  auto problem = nccl_.failure();
  return problem ? problem : staged_.failure();
}

void lane_thread::end_in_order() {
  while (!launched_.empty())
    wait_for_oldest();
  if (!paths_ || reason())
    return;
  // An error means that a member is gone; its device needs nothing any more.
  nccl_.wait_for_members(from_now(), [this](work& question, const deadline_and_abort& limits) {
    return run_work(question, limits);
  });
}

// ---- moving a bundle ----------------------------------------------------------------------------

// A member whose process makes no progress holds up its neighbours, and these hold up theirs. Each of them names the
// silent member in its error, whether it timed out itself or was left by a neighbour that timed out.
error lane_thread::explained(error reason) const {
  const bool late = reason.kind == error_kind::timed_out;
  if (wiring_.remark && (late || reason.kind == error_kind::disconnected))
    reason.text += lateness_notice(late, wiring_.remark());
  return reason;
}

// A path may break because another member's part of the set, or that member itself, has ended. The reason then
// arrives shortly afterwards, so the lane waits for it.
error lane_thread::cause_of(error failure) {
  if (!failure || !wiring_.broke || reason() || failure.kind == error_kind::unimplemented)
    return failure;
  wiring_.broke(failure);
  if (failure.kind == error_kind::timed_out)
    return failure;
  std::unique_lock guard(mutex_);
  abort_arrived_.wait_for(guard, wiring_.patience, [this] { return static_cast<bool>(aborted_); });
  return aborted_ ? aborted_ : failure;
}

deadline_and_abort lane_thread::from_now() const {
  return {token_, std::chrono::steady_clock::now() + wiring_.operation_timeout, wiring_.timeout_citation};
}

outcome lane_thread::move(lane_task& task) {
  if (row_of(task.bundle.operation).rows == row_use::dealt)
    if (auto problem = exchange_splits(task))
      return {problem};
  if (auto problem = allocate_outputs(task, *results_))
    return {problem};
  if (task.bundle.memory == memory_kind::device)
    return run_on_device(task);
  return {run_work(task.bundle, from_now())};
}

// The turn ends once the work is launched. Bundles that are staged launch nothing that waits for other members. There is
// no deadline for the work of other sets, which have their own: a tensor of theirs may be ready late.
outcome lane_thread::run_on_device(lane_task& task) {
  const auto& bundle = task.bundle;
  if (!nccl_.may_take(bundle))
    task.turn.end();
  if (auto problem = task.turn.wait([&]() -> error {
        release_ended();
        return token_.raised() ? error{error_kind::disconnected, "aborted while it waited for its turn"}
                               : error{};
      }))
    return {as_told(std::move(problem))};
  const auto deadline = from_now();
  const auto run_on_host = [this](work& question, const deadline_and_abort& limits) {
    return run_work(question, limits);
  };
  const auto taken = nccl_.takes(bundle, deadline, run_on_host);
  if (!taken)
    return {as_told(taken.error())};
  if (!*taken) {
    task.turn.end();
    return run_staged(bundle, deadline);
  }
  auto result = run_marked(nccl_.name(), bundle, [&] { return nccl_.run(bundle, deadline); });
  result.error = as_told(std::move(result.error));
  // The other members have launched it, and their devices wait for this one.
  if (result.error.kind == error_kind::unimplemented)
    result.error.kind = error_kind::unknown;
  return result;
}

outcome lane_thread::run_staged(const work& bundle, const deadline_and_abort& deadline) {
  if (!wiring_.staging)
    return {{error_kind::unimplemented, "this member cannot move tensors in GPU memory"}};
  auto result = staged_.run(bundle, deadline, [this](work& chunk, const deadline_and_abort& limits) {
    return run_work(chunk, limits);
  });
  result.error = as_told(std::move(result.error));
  return result;
}

error lane_thread::exchange_splits(lane_task& task) {
  auto& operation = *task.operations.at(0);
  split_exchange exchange(operation.splits);
  auto question = exchange.question();
  if (auto problem = run_work(question, from_now()))
    return problem;
  if (auto problem = exchange.answer(operation.name, bytes_of_row(operation.signature), task.bundle))
    return problem;
  operation.outcome.first_dims = exchange.received();
  return {};
}

outcome lane_thread::run_marked(std::string_view path_name, const work& bundle,
                                const std::function<outcome()>& run) {
  if (!wiring_.ranges)
    return run_recorded(path_name, bundle, run);
  const auto activity =
      wiring_.ranges->activity(path_name, bundle.operation, bundle.reduce_op, bytes_of_inputs(bundle));
  return run_recorded(path_name, bundle, run);
}

outcome lane_thread::run_recorded(std::string_view path_name, const work& bundle,
                                  const std::function<outcome()>& run) {
  if (!wiring_.recorder || !wiring_.recorder->records())
    return run();
  auto& recorder = *wiring_.recorder;
  const auto name = recorder.intern(path_name);
  recorder.record(event_kind::path_begin, name, wiring_.set,
                  recorded_operation(bundle.operation, bundle.reduce_op), running_, bytes_of_inputs(bundle));
  auto result = run();
  recorder.record(event_kind::path_end, name, wiring_.set, static_cast<std::uint8_t>(result.error.kind),
                  running_, static_cast<std::uint64_t>(result.waited.count()));
  return result;
}

// Paths identify works by their sequence number. All members run equal bundles in equal order, and the additional
// works of a bundle follow from its operation alone, so counting gives equal numbers on all members. A member that
// gives up in between has ended the generation.
error lane_thread::run_work(work& bundle, const deadline_and_abort& deadline) {
  bundle.sequence = works_++;
  auto& route = paths_->choose(bundle);
  return explained(
      as_told(run_marked(route.name(), bundle, [&] { return route.run(bundle, deadline); }).error));
}

// A path only knows that it was aborted; the caller of abort() has given the reason.
error lane_thread::as_told(error cause) const {
  auto told = cause.kind == error_kind::disconnected ? reason() : error{};
  return told ? told : cause;
}

} // namespace farandole
