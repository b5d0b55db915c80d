// A lane runs the bundles of one process set on this member, in order. Only the lane settles the operations that it
// has started, and only after the path has released their buffers. `lane_thread` is the real implementation:
// straight-line code on its own thread, which may block. The simulated world has another one.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "actors/gpu/launch_order.hpp"
#include "actors/gpu/launched_bundles.hpp"
#include "actors/gpu/nccl_runner.hpp"
#include "actors/gpu/staged_runner.hpp"
#include "actors/submission/operation_state.hpp"
#include "collectives/transport/path.hpp"
#include "collectives/transport/registry/data_paths.hpp"
#include "collectives/transport/shm/result_memory.hpp"

namespace farandole {

class lane;
class nvtx_ranges;

/// One bundle and the operations that it settles. operations[i] belongs to bundle.parts[i]; it is null where this
/// member has joined, so that neutral elements stand in.
struct lane_task {
  work bundle;
  std::vector<operation_state_ptr> operations;
  std::weak_ptr<lane> target_lane; ///< the lane that is to run it
  launch_turn turn;                ///< when it may be launched, if it takes part in the order of launches

  lane_task() = default;
  lane_task(const lane_task&) = delete;
  lane_task& operator=(const lane_task&) = delete;
  /// A task that is dropped before it ran hands its operations to its lane, which settles them when it ends. If the
  /// lane is gone, the operations fail at once. So no caller waits forever.
  ~lane_task();
  /// Settles every operation of the task with `reason`. The path must have released the buffers.
  void settle(const error& reason);
};

class lane {
public:
  virtual ~lane() = default;
  /// Queues a bundle. Never blocks.
  virtual void run(std::unique_ptr<lane_task> task) = 0;
  /// Makes the running path give up; fails all queued and all later bundles with `reason`. Never blocks.
  virtual void abort(error reason) = 0;
  /// Takes over the operations of a task that will never run. They are settled with the reason of abort().
  virtual void adopt(std::vector<operation_state_ptr> orphans) = 0;
};

/// The name of the thread that runs the bundles of this set: "fd-lane" for the global set, "fd-lane/3" for set 3. The
/// kernel's limit of 15 characters cuts ids of more than 7 digits.
std::string lane_name(std::uint32_t set_id);

class lane_thread final : public lane {
public:
  struct wiring {
    std::string name;                           ///< of the thread, at most 15 characters; see lane_name()
    std::chrono::nanoseconds operation_timeout; ///< the time without progress that a bundle may take
    std::string timeout_citation;               ///< "operation timeout (…) = 30 s"
    /// Called on the lane's thread after the operations of a bundle were settled, with its number, size and error.
    std::function<void(std::uint64_t sequence, std::uint64_t bytes, const error& reason)> finished;
    /// Called on the lane's thread when a path broke; empty if no other component can explain the failure. Other
    /// members may have a reason for it that aborts this lane. If the abort arrives within `patience`, its reason
    /// becomes the error of the failed operations.
    std::function<void(const error& failure)> broke = {};
    std::chrono::nanoseconds patience{};
    /// Describes the members whose processes make no progress; empty if there are none. Called on the lane's thread
    /// when a bundle has timed out or was left by a neighbour; the text is appended to the error.
    std::function<std::string()> remark = {};
    std::shared_ptr<event_recorder> recorder = nullptr;  ///< records the runs of paths; may be null
    std::shared_ptr<const nvtx_ranges> ranges = nullptr; ///< marks them for a profiler; may be null
    std::uint32_t set = 0;                               ///< id of the process set, for the record
    nccl_runner::options nccl = {};
    /// Opens the copies between the memory of a device and host memory.
    staged_runner::opener staging = {};
    std::size_t rank = 0; ///< of this member, within the set
    /// Whether operations on the memory of a device are settled once the device has been given all of their work.
    /// Otherwise they are settled when the device has done it.
    bool settles_at_launch = false;
    std::shared_ptr<device_ledger> ledger = std::make_shared<device_ledger>(); ///< of the runtime
    std::shared_ptr<launch_order> launches = std::make_shared<launch_order>(); ///< of the runtime
    std::uint32_t number = 0; ///< of the process set, in the order of launches
  };
  explicit lane_thread(wiring wires);
  ~lane_thread() override { stop(); }

  /// Aborts and joins the thread. Bundles that are still queued do not run, and all their operations are settled.
  /// Idempotent. Blocks until the running path has given up, so the event loop must not call it.
  void stop();

  /// Lets the thread end after the work that is queued so far; stop() then returns soon. For the event loop.
  void finish();

  void run(std::unique_ptr<lane_task> task) override;
  void abort(error reason) override;
  void adopt(std::vector<operation_state_ptr> orphans) override;

  /// Runs `function` on the lane's thread, in order with the bundles. Used to set up the paths, which belong to that
  /// thread.
  void call(std::function<void()> function);

  /// Sets the paths that bundles take from now on. On the lane's thread only.
  void use(std::unique_ptr<data_paths> paths);
  data_paths* paths() { return paths_.get(); }
  /// Waits until devices have done all work of the bundles so far, here and on the other members, or a deadline passes. All
  /// members call it behind the same bundle. On the lane's thread only.
  void end_in_order();
  const abort_token& token() const { return token_; }
  /// Memory for outputs whose size is known only when they are moved. Thread-safe.
  const std::shared_ptr<result_memory>& results() const { return results_; }

private:
  static constexpr std::size_t most_launched = 8;

  void loop();
  void execute(lane_task& task);
  outcome move(lane_task& task);
  /// The deadline of a work that begins now.
  deadline_and_abort from_now() const;
  error exchange_splits(lane_task& task);
  outcome run_on_device(lane_task& task);
  outcome run_staged(const work& bundle, const deadline_and_abort& deadline);
  error run_work(work& bundle, const deadline_and_abort& deadline);
  error wait_for_device(const launched_bundle& bundle) const;
  bool release_ended();
  void wait_for_oldest();
  bool give_up_overdue();
  nccl_runner::options nccl_options();
  void give_up(const error& reason);
  error failure_of_devices() const;
  error as_told(error cause) const;
  outcome run_marked(std::string_view path_name, const work& bundle, const std::function<outcome()>& run);
  outcome run_recorded(std::string_view path_name, const work& bundle, const std::function<outcome()>& run);
  error reason() const;
  error explained(error reason) const;
  error cause_of(error failure);
  void push(std::function<void()> function);

  wiring wiring_;
  abort_token token_;
  std::unique_ptr<data_paths> paths_;
  std::shared_ptr<result_memory> results_ = std::make_shared<result_memory>();
  launched_bundles launched_;
  nccl_runner nccl_;
  staged_runner staged_;
  failure_questions questions_; ///< about the devices of launched bundles
  std::uint64_t works_ = 0;     ///< number of works run so far
  std::uint64_t running_ = 0;   ///< sequence number of the bundle that runs, for the record

  mutable std::mutex mutex_;
  std::condition_variable abort_arrived_; ///< notified when aborted_ is set
  error aborted_;
  std::vector<operation_state_ptr> orphans_; ///< adopted operations, until aborted_ is set
  std::vector<std::function<void()>> queue_;
  std::atomic<std::uint32_t> queued_{0}; ///< counts pushes; the thread sleeps on it
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

} // namespace farandole
