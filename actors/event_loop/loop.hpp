// The event loop: one thread per process runs all actors, sockets and timers. So actors need no locks among each
// other, and a message from one actor to the next wakes no thread. The loop extends CAF's multiplexer: it also runs
// CAF's event-based actors, fires the clock, and sleeps in one place, from which other threads wake it by an eventfd.
#pragma once

#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <caf/io/network/default_multiplexer.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "messages/values/descriptor.hpp"

namespace farandole {

enum class watch_event : std::uint8_t {
  readable, ///< bytes can be read, possibly after the peer has closed the connection
  writable,
  hangup, ///< the last event of a watch
};

/// Reports the events of a descriptor to a callback for as long as the watch lives. The watch owns the descriptor,
/// which is closed once the loop no longer uses it. A watch must be made, moved and destroyed on the loop's thread
/// (or after the loop has ended). The callback may destroy its own watch. To watch a descriptor that another
/// component owns, pass a dup() of it.
class descriptor_watch {
public:
  descriptor_watch() = default;
  descriptor_watch(descriptor_watch&&) noexcept = default;
  descriptor_watch& operator=(descriptor_watch&& other) noexcept;
  ~descriptor_watch() { stop(); }

  explicit operator bool() const { return handler_ != nullptr; }
  /// -1 when empty.
  int get() const;
  /// Enables or disables the events `readable` (initially enabled) and `writable` (initially disabled).
  void want(bool readable, bool writable);
  void stop();

private:
  friend class loop;
  class handler;
  explicit descriptor_watch(std::shared_ptr<handler> h) : handler_(std::move(h)) {}

  std::shared_ptr<handler> handler_;
};

/// The event loop of one actor system. CAF constructs it when the system starts (use_one_loop); loop_of() returns it.
class loop final : public caf::io::network::default_multiplexer {
public:
  explicit loop(caf::actor_system* system);
  ~loop() override;

  // ---- from the loop's thread ----

  bool is_local() const { return std::this_thread::get_id() == const_cast<loop*>(this)->thread_id(); }

  /// Watches the descriptor and makes it non-blocking. The callback runs between actors, outside any actor's context,
  /// so it should only send a message.
  descriptor_watch watch(descriptor fd, std::function<void(watch_event)> callback);

  /// Calls `action` once, after all actors of this turn have run and before the loop sleeps. Components use it to
  /// send the output of one turn together. It runs outside any actor's context, so it should only send a message.
  void at_turn_end(std::function<void()> action) { turn_end_.push_back(std::move(action)); }

  /// Returns the id for an accepted link. Ids are never reused. Their highest bit is set, so they differ from the ids
  /// that owners choose.
  std::uint64_t next_accepted_link() { return (std::uint64_t{1} << 63) | ++accepted_links_; }

  // ---- from a forked child ----

  /// Closes the child's copies of all watched descriptors. Otherwise the peers would not notice the death of the
  /// parent while the child lives. Takes no lock and allocates no memory. The loop has no thread in the child and
  /// must not be used there otherwise.
  void close_in_child() noexcept;

  // ---- from any thread ----

  // post(f), inherited: runs f on the loop.

  /// Schedules an actor that has messages in its mailbox.
  void exec_later(caf::resumable* job) override;

  /// Sets how long the loop polls for work before it sleeps. The default is 0; set more only if there are spare
  /// cores.
  void spin_for(std::chrono::microseconds duration) {
    spin_us_.store(duration.count(), std::memory_order_relaxed);
  }

  /// Number of times that the loop woke up from sleep.
  std::uint64_t wakeups() const { return wakeups_.load(std::memory_order_relaxed); }
  /// Number of times that another thread had to wake the loop by the eventfd.
  std::uint64_t doorbells() const { return doorbells_.load(std::memory_order_relaxed); }

  /// Wakes the loop at `when` (or earlier) and calls the action of on_timer().
  void set_timer(std::chrono::steady_clock::time_point when);
  /// Sets the action of the timer. Call it once, before the loop runs.
  void on_timer(std::function<void()> action) { timer_action_ = std::move(action); }

private:
  void run() override;
  supervisor_ptr make_supervisor() override;

  bool turn();
  bool run_actors();
  void take_foreign();
  void resume_one(caf::resumable* job);
  void settle_watches();
  void sleep();
  void ring();
  void stop();

  /// The watched descriptors, one bit for each. Atomic, so that a forked child reads a consistent set even if the
  /// loop changed it during the fork.
  static constexpr std::size_t most_descriptors = 65536;
  std::array<std::atomic<std::uint64_t>, most_descriptors / 64> watched_{};

  std::vector<caf::resumable*> local_, batch_;
  std::vector<std::function<void()>> turn_end_, turn_end_batch_;
  std::uint64_t accepted_links_ = 0;

  std::mutex foreign_guard_;
  std::vector<caf::resumable*> foreign_;
  std::atomic<std::size_t> foreign_count_{0};
  std::atomic<bool> sleeping_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<std::int64_t> spin_us_{0};
  std::atomic<std::uint64_t> wakeups_{0};
  std::atomic<std::uint64_t> doorbells_{0};

  std::function<void()> timer_action_;
  std::shared_ptr<int> life_ = std::make_shared<int>(0); ///< expires with the loop; watches may outlive it
  std::vector<std::shared_ptr<descriptor_watch::handler>> stopped_watches_;
  friend class descriptor_watch;
  descriptor_watch bell_, timer_;
};

/// Configures an actor system to run all actors on one loop. Loads the loop, its scheduler and its clock, and nothing
/// that would start another thread. CAF's logger stays off. CAF reads neither command-line arguments nor files.
void use_one_loop(caf::actor_system_config& config);

/// Returns the loop of a system that was configured by use_one_loop().
loop& loop_of(caf::actor_system& system);

/// A running actor system on one loop. The loop's thread blocks all signals from its first instruction on. The
/// destructor waits for all actors to end, so they must have been told to end before.
class loop_system {
public:
  loop_system();
  loop_system(const loop_system&) = delete;
  loop_system& operator=(const loop_system&) = delete;
  ~loop_system();

  caf::actor_system& get() { return *system_; }
  farandole::loop& loop() { return loop_of(*system_); }

private:
  struct config;
  std::unique_ptr<config> config_;
  std::unique_ptr<caf::actor_system> system_;
};

} // namespace farandole
