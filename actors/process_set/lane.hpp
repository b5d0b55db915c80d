// A lane runs the bundles of one process set on this member, in order, and settles the operations it has
// started: it alone, and only after its path has let go of the buffers. `lane_thread` is the real one:
// straight-line code on a thread of its own that may block. The simulated world brings another.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "actors/submission/operation_state.hpp"
#include "collectives/transport/path.hpp"
#include "collectives/transport/registry/data_paths.hpp"
#include "collectives/transport/shm/result_memory.hpp"

namespace farandole {

class lane;

/// One bundle and the operations it settles; operations[i] belongs to bundle.parts[i] and is null where this
/// member has joined and stands in with neutral elements.
struct lane_job {
  work bundle;
  std::vector<operation_state_ptr> operations;
  std::weak_ptr<lane> home; ///< where it is to run

  lane_job() = default;
  lane_job(const lane_job&) = delete;
  lane_job& operator=(const lane_job&) = delete;
  /// A job that is dropped on its way leaves what it holds to its lane: nobody waits on the dead.
  ~lane_job();
  /// Ends every operation with `how`. The path must have let go of the buffers.
  void settle(const error& reason);
};

class lane {
public:
  virtual ~lane() = default;
  /// Queues a bundle. Never blocks.
  virtual void run(std::unique_ptr<lane_job> job) = 0;
  /// Makes the running path give up and fails what is queued and what will come with `why`. Never blocks.
  virtual void abort(error reason) = 0;
  /// Operations of a job that will never come: they end as the lane does.
  virtual void adopt(std::vector<operation_state_ptr> orphans) = 0;
};

class lane_thread final : public lane {
public:
  struct wiring {
    std::string name;                           ///< of the thread, at most 15 characters
    std::chrono::nanoseconds operation_timeout; ///< for one bundle
    std::string timeout_citation;               ///< "operation timeout (…) = 30 s"
    /// From the lane's thread, after the operations of a bundle were settled: its number and how it ended.
    std::function<void(std::uint64_t sequence, std::uint64_t bytes, const error& reason)> finished;
    /// From the lane's thread, where there is somebody who says why a path broke: the other members may have
    /// reasons that end the lane at once. What the path broke in is settled with that reason, if it is told
    /// before the patience ends.
    std::function<void(const error& failure)> broke = {};
    std::chrono::nanoseconds patience{};
    /// The members whose processes make no progress, to follow the error of a bundle that has waited for too
    /// long or was left by a neighbour; empty: none is known. From the lane's thread.
    std::function<std::string()> remark = {};
  };
  explicit lane_thread(wiring wires);
  ~lane_thread() override { stop(); }

  /// Aborts, and waits for the thread; nothing queued is run afterwards, and what was is settled. Idempotent.
  /// Blocks for as long as the path needs to give up: not for the loop.
  void stop();

  /// The thread ends once it has done what it was given; stop() then no longer blocks for long. For the loop.
  void finish();

  void run(std::unique_ptr<lane_job> job) override;
  void abort(error reason) override;
  void adopt(std::vector<operation_state_ptr> orphans) override;

  /// Runs `task` on the lane's thread, in order with bundles: how paths are set up, which belong to that
  /// thread.
  void call(std::function<void()> task);

  /// From the lane's thread: the paths that bundles take from now on.
  void use(std::unique_ptr<data_paths> paths);
  data_paths* paths() { return paths_.get(); }
  const abort_token& token() const { return token_; }
  /// Where outputs come from whose size is known only when they are moved. Thread-safe.
  const std::shared_ptr<result_memory>& results() const { return results_; }

private:
  void loop();
  void execute(lane_job& job);
  error move(lane_job& job);
  error exchange_splits(lane_job& job, const deadline_and_abort& deadline);
  error run_work(work& task, const deadline_and_abort& deadline);
  error reason() const;
  error explained(error reason) const;
  error cause_of(error failure);
  void push(std::function<void()> task);

  wiring wiring_;
  abort_token token_;
  std::unique_ptr<data_paths> paths_;
  std::shared_ptr<result_memory> results_ = std::make_shared<result_memory>();
  std::uint64_t works_ = 0; ///< run so far

  mutable std::mutex mutex_;
  std::condition_variable told_; ///< of aborted_
  error aborted_;
  std::vector<operation_state_ptr> orphans_; ///< until aborted_
  std::vector<std::function<void()>> queue_;
  std::atomic<std::uint32_t> queued_{0}; ///< counts pushes; the thread sleeps on it
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

} // namespace farandole
