// All of a process' calls to MPI are made by one thread. So MPI needs to be no more patient with threads than
// it is, waits can be given up (MPI's own cannot), and a message's memory belongs to the message: who stops
// waiting leaves it behind, and MPI may go on writing into it.
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

/// Where a lane hears that its messages are done.
struct mpi_mailbox {
  shared_counter done;             ///< how many messages have ended
  std::atomic<bool> closed{false}; ///< nobody waits any more: its messages are given up
};

/// One message, shared by the lane that wants it and the thread that calls MPI.
struct mpi_message {
  std::shared_ptr<mpi_mailbox> mailbox;
  mpi_handle group = 0;
  std::int32_t peer = 0;
  std::int32_t tag = 0;
  bool receives = false;
  std::vector<std::byte> memory; ///< at least `bytes`
  std::size_t bytes = 0;

  std::atomic<bool> done{false}; ///< then what follows stands, and the memory is the lane's again
  int code = 0;
  std::uint64_t received = 0; ///< bytes that came, of a receive without an error
};
using mpi_message_ptr = std::shared_ptr<mpi_message>;

/// The members of a job, in the order of their ranks there.
struct mpi_group {
  mpi_handle handle = 0;
  std::int32_t rank = 0;
  std::int32_t size = 1;
  std::int32_t tag_limit = 0;
  bool one_host = true;
};

class mpi_engine {
public:
  using clock = std::chrono::steady_clock;

  explicit mpi_engine(const mpi_module& mpi);
  /// Ends the thread, with whatever was under way; MPI itself stays as it is.
  ~mpi_engine();
  mpi_engine(const mpi_engine&) = delete;
  mpi_engine& operator=(const mpi_engine&) = delete;

  /// The one of this process, with MPI up: initialized here unless it was already, and then finalized when
  /// the process ends. `alone`: no other thread of the process will call MPI.
  static expected<mpi_engine*> of_process(bool alone, clock::time_point deadline);

  /// Brings MPI up; once.
  error start(bool alone, clock::time_point deadline);
  /// Takes MPI down if start() brought it up.
  void finish(clock::time_point deadline);
  const mpi_state& world() const { return world_; }

  /// Blocks until all these ranks of the world ask for the same. After `timed_out` MPI is lost to this
  /// process.
  expected<mpi_group> form(std::span<const std::int32_t> ranks, clock::time_point deadline);

  /// Thread-safe.
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

  std::mutex guard_;
  std::condition_variable news_;
  std::vector<std::function<void()>> calls_;
  std::vector<mpi_message_ptr> posted_;
  bool ending_ = false;

  // Of the thread alone: equally long.
  std::vector<mpi_handle> requests_;
  std::vector<mpi_message_ptr> under_way_;
  std::vector<std::int32_t> places_;
  std::vector<std::int32_t> codes_;
  std::vector<std::uint64_t> received_;
  /// Messages that nobody waits for and MPI has not given back: their memory stays for ever.
  std::vector<mpi_message_ptr> left_behind_;

  std::thread thread_;
};

} // namespace farandole
