#include "actors/set/lane.hpp"

#include <csignal>
#include <new>
#include <pthread.h>

#include "actors/set/split_exchange.hpp"
#include "collectives/operation.hpp"
#include "collectives/paths/data_paths.hpp"

namespace farandole {

namespace {

// To follow an operation's error; `silent`: the members whose processes make no progress.
std::string lateness_notice(bool late, const std::string& silent) {
  if (late && silent.empty())
    return "; no member is known whose process makes no progress, so one is late or stuck in something else";
  return silent;
}

// Outputs whose size is known only now live with their operation.
error allocate_outputs(lane_job& job, result_memory& memory) {
  if (!row_of(job.bundle.operation).has_rows())
    return {};
  for (std::size_t i = 0; i < job.bundle.parts.size(); ++i) {
    if (job.bundle.parts[i].output)
      continue;
    auto& operation = *job.operations[i];
    if (auto problem = operation.own_output(memory, std::move(operation.outcome.first_dims)))
      return problem;
    job.bundle.parts[i].output = operation.owned.get();
  }
  return {};
}

} // namespace

// The lane may have gone before: where the set was started anew, that is the reason.
lane_job::~lane_job() {
  std::erase_if(operations, [](const pending_ptr& one) { return !one; });
  if (auto runs = operations.empty() ? nullptr : home.lock())
    runs->adopt(std::exchange(operations, {}));
  const auto why = operations.empty() ? error{} : operations.front()->epoch.refuse();
  settle(why ? why : error{error_kind::disconnected, "the generation ended before this operation was run"});
}

void lane_job::settle(const error& how) {
  for (auto& operation : operations)
    if (auto mine = std::exchange(operation, {}); mine && !mine->settled())
      mine->settle(how);
}

lane_thread::lane_thread(wiring how) : wiring_(std::move(how)) {
  // The thread inherits a mask that blocks every signal: they are for the framework's threads.
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

void lane_thread::run(std::unique_ptr<lane_job> job) {
  // std::function must be copyable; the job is not.
  auto shared = std::make_shared<std::unique_ptr<lane_job>>(std::move(job));
  push([this, shared] { execute(**shared); });
}

void lane_thread::call(std::function<void()> task) {
  push(std::move(task));
}

void lane_thread::push(std::function<void()> task) {
  {
    std::lock_guard guard(mutex_);
    queue_.push_back(std::move(task));
  }
  queued_.fetch_add(1, std::memory_order_seq_cst);
  queued_.notify_one();
}

void lane_thread::abort(error why) {
  std::vector<pending_ptr> orphans;
  {
    std::lock_guard guard(mutex_);
    if (!aborted_)
      aborted_ = why;
    orphans.swap(orphans_);
  }
  told_.notify_all();
  token_.raise();
  for (auto& one : orphans)
    one->settle(why);
}

void lane_thread::adopt(std::vector<pending_ptr> orphans) {
  error why;
  {
    std::lock_guard guard(mutex_);
    why = aborted_;
    if (!why)
      orphans_.insert(orphans_.end(), std::make_move_iterator(orphans.begin()),
                      std::make_move_iterator(orphans.end()));
  }
  if (why)
    for (auto& one : orphans)
      one->settle(why);
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
    auto seen = queued_.load(std::memory_order_seq_cst);
    std::vector<std::function<void()>> tasks;
    {
      std::lock_guard guard(mutex_);
      tasks.swap(queue_);
    }
    for (auto& task : tasks)
      task();
    if (tasks.empty())
      queued_.wait(seen);
  }
  // What belongs to this thread goes with it.
  paths_.reset();
}

void lane_thread::execute(lane_job& job) {
  // The lane numbers works anew.
  const auto sequence = job.bundle.sequence;
  std::uint64_t bytes = 0;
  for (auto& one : job.bundle.parts)
    bytes += one.input_bytes;
  auto why = reason();
  if (!why && !paths_)
    why = {error_kind::unknown, "the data paths are not connected"};
  if (!why)
    why = cause_of(explained(move(job)));
  job.settle(why);
  wiring_.finished(sequence, bytes, why);
}

// A member whose process makes no progress holds up those who wait for it, and they those who wait for them:
// each names it, whether it waited too long itself or a neighbour left it for that reason.
error lane_thread::explained(error seen) const {
  const bool late = seen.kind == error_kind::timed_out;
  if (wiring_.remark && (late || seen.kind == error_kind::disconnected))
    seen.text += lateness_notice(late, wiring_.remark());
  return seen;
}

// Another member's part of the set, or the member itself, may have ended: its path then broke for a reason
// that this member is about to hear.
error lane_thread::cause_of(error seen) {
  if (!seen || !wiring_.broke || reason() || seen.kind == error_kind::unimplemented)
    return seen;
  wiring_.broke(seen);
  if (seen.kind == error_kind::timed_out)
    return seen;
  std::unique_lock guard(mutex_);
  told_.wait_for(guard, wiring_.patience, [this] { return static_cast<bool>(aborted_); });
  return aborted_ ? aborted_ : seen;
}

error lane_thread::move(lane_job& job) {
  const limits until{token_, std::chrono::steady_clock::now() + wiring_.operation_timeout,
                     wiring_.timeout_citation};
  if (row_of(job.bundle.operation).rows == row_use::dealt)
    if (auto problem = exchange_splits(job, until))
      return problem;
  if (auto problem = allocate_outputs(job, *results_))
    return problem;
  return run_work(job.bundle, until);
}

error lane_thread::exchange_splits(lane_job& job, const limits& until) {
  auto& operation = *job.operations.at(0);
  split_exchange exchange(operation.splits);
  auto question = exchange.question();
  if (auto problem = run_work(question, until))
    return problem;
  if (auto problem = exchange.answer(operation.name, bytes_of_row(operation.signature), job.bundle))
    return problem;
  operation.outcome.first_dims = exchange.received();
  return {};
}

// Paths tell works apart by their number. Members run equal bundles in equal order, and what a bundle needs
// besides its own work follows from its operation alone, so counting gives equal numbers on all of them; a
// member that gives up in between has ended the generation.
error lane_thread::run_work(work& what, const limits& until) {
  what.sequence = works_++;
  auto why = paths_->choose(what).run(what, until).error;
  // The one that aborted knows why; the path only knows that.
  if (why.kind == error_kind::disconnected)
    if (auto told = reason())
      why = told;
  return why;
}

} // namespace farandole
