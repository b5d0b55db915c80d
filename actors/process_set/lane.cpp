#include "actors/process_set/lane.hpp"

#include <csignal>
#include <new>
#include <pthread.h>

#include "actors/process_set/split_exchange.hpp"
#include "collectives/operation.hpp"
#include "collectives/transport/registry/data_paths.hpp"

namespace farandole {

namespace {

// Text to append to an operation's error. `silent` describes the members whose processes make no progress.
std::string lateness_notice(bool late, const std::string& silent) {
  if (late && silent.empty())
    return "; no member is known whose process makes no progress, so one is late or stuck in something else";
  return silent;
}

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

lane_thread::lane_thread(wiring wires) : wiring_(std::move(wires)) {
  // The thread inherits a mask that blocks every signal, so signals go to the framework's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { loop(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), wiring_.name.c_str());
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
  while (!stop_) {
    auto queued_count = queued_.load(std::memory_order_seq_cst);
    std::vector<std::function<void()>> functions;
    {
      std::lock_guard guard(mutex_);
      functions.swap(queue_);
    }
    for (auto& function : functions)
      function();
    if (functions.empty())
      queued_.wait(queued_count);
  }
  // The paths belong to this thread, so this thread destroys them.
  paths_.reset();
}

void lane_thread::execute(lane_task& task) {
  // Saved because run_work() overwrites it with the lane's own number.
  const auto sequence = task.bundle.sequence;
  std::uint64_t bytes = 0;
  for (auto& part : task.bundle.parts)
    bytes += part.input_bytes;
  auto cause = reason();
  if (!cause && !paths_)
    cause = {error_kind::unknown, "the data paths are not connected"};
  if (!cause)
    cause = cause_of(explained(move(task)));
  task.settle(cause);
  wiring_.finished(sequence, bytes, cause);
}

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

error lane_thread::move(lane_task& task) {
  const deadline_and_abort deadline{token_, std::chrono::steady_clock::now() + wiring_.operation_timeout,
                                    wiring_.timeout_citation};
  if (row_of(task.bundle.operation).rows == row_use::dealt)
    if (auto problem = exchange_splits(task, deadline))
      return problem;
  if (auto problem = allocate_outputs(task, *results_))
    return problem;
  return run_work(task.bundle, deadline);
}

error lane_thread::exchange_splits(lane_task& task, const deadline_and_abort& deadline) {
  auto& operation = *task.operations.at(0);
  split_exchange exchange(operation.splits);
  auto question = exchange.question();
  if (auto problem = run_work(question, deadline))
    return problem;
  if (auto problem = exchange.answer(operation.name, bytes_of_row(operation.signature), task.bundle))
    return problem;
  operation.outcome.first_dims = exchange.received();
  return {};
}

// Paths identify works by their sequence number. All members run equal bundles in equal order, and the additional
// works of a bundle follow from its operation alone, so counting gives equal numbers on all members. A member that
// gives up in between has ended the generation.
error lane_thread::run_work(work& bundle, const deadline_and_abort& deadline) {
  bundle.sequence = works_++;
  auto cause = paths_->choose(bundle).run(bundle, deadline).error;
  // The path only knows that it was aborted; the caller of abort() has given the reason.
  if (cause.kind == error_kind::disconnected)
    if (auto told = reason())
      cause = told;
  return cause;
}

} // namespace farandole
