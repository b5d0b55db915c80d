// One thread per process runs every actor, every socket and every timer: no locks between actors, no thread
// to wake from one actor to the next. CAF's own multiplexer is the base; this subclass also runs CAF's
// event-based actors, fires the clock, and sleeps in one place, from which a foreign thread wakes it by an
// eventfd.
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
  readable, ///< or the peer hung up with bytes left to read
  writable,
  hangup, ///< nothing more will come; the watch hears nothing after this
};

/// While it lives, its callback hears what happens to its descriptor. Owns the descriptor: closing waits
/// until the loop has let go of it. Made, moved and destroyed on the loop's thread (or after the loop has
/// ended); the callback may destroy its own watch. To keep a descriptor that belongs to somebody else, give a
/// dup() of it.
class descriptor_watch {
public:
  descriptor_watch() = default;
  descriptor_watch(descriptor_watch&&) noexcept = default;
  descriptor_watch& operator=(descriptor_watch&& other) noexcept;
  ~descriptor_watch() { stop(); }

  explicit operator bool() const { return handler_ != nullptr; }
  /// -1 when empty.
  int get() const;
  /// Ask for, or stop asking for, `readable` (asked for at first) and `writable` (not asked for at first).
  void want(bool readable, bool writable);
  void stop();

private:
  friend class loop;
  class handler;
  explicit descriptor_watch(std::shared_ptr<handler> h) : handler_(std::move(h)) {}

  std::shared_ptr<handler> handler_;
};

/// The loop of one actor system. Built by CAF when the system starts (use_one_loop); reached by loop_of().
class loop final : public caf::io::network::default_multiplexer {
public:
  explicit loop(caf::actor_system* system);
  ~loop() override;

  // ---- from the loop's thread ----

  bool is_local() const { return std::this_thread::get_id() == const_cast<loop*>(this)->thread_id(); }

  /// Makes the descriptor non-blocking. The callback runs between actors, in no actor's context: it sends a
  /// message.
  descriptor_watch watch(descriptor fd, std::function<void(watch_event)> callback);

  /// Calls `action` once, when no actor of this turn has anything left to do and before the loop sleeps: the
  /// place to gather what one turn produced. In no actor's context: it sends a message.
  void at_turn_end(std::function<void()> action) { turn_end_.push_back(std::move(action)); }

  /// Numbers for accepted links; never reused, and apart from those that owners choose (the highest bit is
  /// set).
  std::uint64_t next_accepted_link() { return (std::uint64_t{1} << 63) | ++accepted_links_; }

  // ---- from a forked child ----

  /// Closes the child's copies of everything watched, so that a peer notices the parent's death. Takes no
  /// lock and allocates nothing. The loop has no thread in the child and must not be used there.
  void close_in_child() noexcept;

  // ---- from any thread ----

  // post(f), inherited: runs f on the loop.

  /// Runs an actor that has mail.
  void exec_later(caf::resumable* job) override;

  /// How long to look for work before sleeping. 0 (the default) unless there are cores to spare.
  void spin_for(std::chrono::microseconds duration) {
    spin_us_.store(duration.count(), std::memory_order_relaxed);
  }

  /// How often the loop came back from the kernel after it had nothing to do.
  std::uint64_t wakeups() const { return wakeups_.load(std::memory_order_relaxed); }
  /// How often a foreign thread had to ring.
  std::uint64_t doorbells() const { return doorbells_.load(std::memory_order_relaxed); }

  /// Wakes the loop at `when` (or earlier) to call what on_timer() has set.
  void set_timer(std::chrono::steady_clock::time_point when);
  /// Set once, before the loop runs.
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

  /// Which descriptors are watched, one bit each, as a child finds them whatever the loop was doing at the
  /// fork.
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
  std::shared_ptr<int> life_ = std::make_shared<int>(0); ///< expires with the loop: watches may outlive it
  std::vector<std::shared_ptr<descriptor_watch::handler>> stopped_watches_;
  friend class descriptor_watch;
  descriptor_watch bell_, timer_;
};

/// Puts every actor of the system on one loop: loads the loop, its scheduler and its clock, and nothing that
/// would start another thread. CAF's logger stays off; neither arguments nor files are read.
void use_one_loop(caf::actor_system_config& config);

/// Of a system made with use_one_loop.
loop& loop_of(caf::actor_system& system);

/// A running actor system on one loop, whose thread blocks all signals from its first instruction. Destroying
/// it waits for all its actors: they must have been told to end.
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
