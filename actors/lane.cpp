#include "actors/lane.hpp"

#include <cassert>
#include <csignal>
#include <numeric>
#include <pthread.h>

#include "collectives/paths/data_paths.hpp"

namespace farandole {

lane_job::~lane_job() {
  settle({error_kind::disconnected, "the generation ended before this operation was run"});
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
  abort({error_kind::unknown, "Farandole has been shut down; call init() again to go on"});
  stop_ = true;
  push([] {});
  if (thread_.joinable())
    thread_.join();
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
  {
    std::lock_guard guard(mutex_);
    if (!aborted_)
      aborted_ = std::move(why);
  }
  token_.raise();
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
  auto why = reason();
  if (!why && !paths_)
    why = {error_kind::unknown, "the data paths are not connected"};
  if (!why)
    why = allocate_outputs(job);
  std::uint64_t bytes = 0;
  for (auto& one : job.bundle.parts)
    bytes += one.input_bytes;
  if (!why) {
    limits until{token_, std::chrono::steady_clock::now() + wiring_.operation_timeout,
                 wiring_.timeout_citation};
    why = paths_->choose(job.bundle).run(job.bundle, until).error;
    // The one that aborted knows why; the path only knows that.
    if (why.kind == error_kind::disconnected)
      if (auto told = reason())
        why = told;
  }
  auto sequence = job.bundle.sequence;
  job.settle(why);
  wiring_.finished(sequence, bytes, why);
}

// Outputs whose size is known only now live with their operation.
error lane_thread::allocate_outputs(lane_job& job) const {
  if (job.bundle.operation != operation::allgather || job.bundle.parts.empty())
    return {};
  auto members = job.bundle.gathered.size() / job.bundle.parts.size();
  for (std::size_t i = 0; i < job.bundle.parts.size(); ++i) {
    auto sizes = job.bundle.gathered.begin() + static_cast<std::ptrdiff_t>(i * members);
    auto total = std::accumulate(sizes, sizes + static_cast<std::ptrdiff_t>(members), std::size_t{0});
    auto& operation = *job.operations[i];
    operation.owned.reset(new (std::nothrow) std::byte[total]);
    if (!operation.owned)
      return {error_kind::unknown,
              operation.name + ": no memory for " + std::to_string(total) + " gathered bytes"};
    operation.outcome.bytes = {operation.owned.get(), total};
    job.bundle.parts[i].output = operation.owned.get();
  }
  return {};
}

} // namespace farandole
