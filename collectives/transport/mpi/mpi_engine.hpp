// One thread makes all MPI calls of a process. Therefore MPI needs no more support for threads than it has. A
// wait can be abandoned, unlike MPI's own waits. The memory of a message belongs to the message: a thread
// that stops waiting leaves the memory behind, and MPI may keep writing into it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "collectives/transport/mpi/mpi_module.hpp"
#include "collectives/transport/wait/futex_wait.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// Tells a lane that its messages are done.
struct mpi_mailbox {
  shared_counter done;             ///< number of messages that have ended
  std::atomic<bool> closed{false}; ///< no thread waits any more: its messages are abandoned
};

/// One message, shared by the lane that posted it and the thread that calls MPI.
struct mpi_message {
  std::shared_ptr<mpi_mailbox> mailbox;
  mpi_handle group = 0;
  std::int32_t peer = 0;
  std::int32_t tag = 0;
  bool receives = false;
  std::vector<std::byte> memory; ///< at least `bytes`
  std::size_t bytes = 0;

  std::atomic<bool> done{false}; ///< when true, the fields below are valid and the lane owns the memory again
  int code = 0;
  std::uint64_t received = 0; ///< number of received bytes, for a receive without an error
};
using mpi_message_ptr = std::shared_ptr<mpi_message>;

/// The communicator of a job's members, in the order of their ranks.
struct mpi_group {
  mpi_handle handle = 0;
  std::int32_t rank = 0;
  std::int32_t size = 1;
  std::int32_t tag_limit = 0;
};

class mpi_engine {
public:
  using clock = std::chrono::steady_clock;

  explicit mpi_engine(const mpi_module& mpi);
  /// Ends the thread and abandons all messages in progress. Does not finalize MPI.
  ~mpi_engine();
  mpi_engine(const mpi_engine&) = delete;
  mpi_engine& operator=(const mpi_engine&) = delete;

  /// The engine of this process, with MPI initialized. If MPI was not initialized yet, it is initialized here
  /// and finalized when the process ends. `alone`: no other thread of the process will call MPI.
  static expected<mpi_engine*> of_process(bool alone, clock::time_point deadline);

  /// Initializes MPI unless it is initialized already. Must be called once.
  error start(bool alone, clock::time_point deadline);
  /// Finalizes MPI if start() has initialized it.
  void finish(clock::time_point deadline);
  const mpi_state& world() const { return world_; }

  /// Creates a communicator. Blocks until all these ranks of MPI's world have called it with the same ranks.
  /// After `timed_out` this process cannot use MPI any more.
  expected<mpi_group> form(std::span<const std::int32_t> ranks, clock::time_point deadline);

  /// Passes a message to the thread, which starts it. Thread-safe.
  void post(mpi_message_ptr message);
  std::string describe(int code) const;

private:
  error call(std::function<error()> work, clock::time_point deadline);
  void run();
  void begin(const mpi_message_ptr& message);
  bool look();
  void drop_closed();
  static void end(mpi_message& message, int code, std::uint64_t received = 0);

  const mpi_module& mpi_;
  mpi_state world_{};
  bool ours_ = false; ///< start() initialized MPI

  std::mutex mutex_;
  std::condition_variable news_;
  std::vector<std::function<void()>> calls_;
  std::vector<mpi_message_ptr> posted_;
  bool ending_ = false;

  // Used only by the thread. All have the same length.
  std::vector<mpi_handle> requests_;
  std::vector<mpi_message_ptr> under_way_;
  std::vector<std::int32_t> completed_;
  std::vector<std::int32_t> codes_;
  std::vector<std::uint64_t> received_;
  /// Abandoned messages that MPI has not completed. Their memory is never freed while the engine exists.
  std::vector<mpi_message_ptr> left_behind_;

  std::thread thread_;
};

} // namespace farandole
