// Waits on the main thread, while the loop runs the actors of a launcher or an agent, for its end: its driver has
// finished, a signal arrives, the input ends, or another rendezvous has replaced the job's own.
#pragma once

#include <caf/all.hpp>

#include <signal.h>

#include <atomic>
#include <functional>

#include "actors/launch/host_driver.hpp"
#include "messages/values/descriptor.hpp"

namespace farandole {

/// The signals that end a launcher or an agent: SIGINT, SIGTERM and SIGHUP. Those that this process ignores are left out,
/// because a blocked signal would reach the signalfd although it is ignored. Shells start background commands of scripts
/// with SIGINT ignored, and nohup ignores SIGHUP.
sigset_t ending_signals();

/// Its constructor and wait() belong to one thread, in which ending_signals() must be blocked.
class job_watch {
public:
  job_watch();

  /// The callback for a driver that has finished; called on the loop.
  std::function<void(int)> finished();
  /// The callback for a rendezvous that was replaced and has logged the reason, or a caller that is gone. Called on the
  /// loop.
  std::function<void()> stepped_down();

  /// For a launcher without a driver: waits until a signal arrives.
  int wait();
  /// Forwards signals to the driver and returns the code with which it has finished.
  template <class Driver>
  int wait_for(const Driver& driver) {
    return wait([&](int signal) {
      caf::anon_send(driver, interrupt_atom::value, signal);
      return false;
    });
  }
  /// The same; also calls `input_ended`, once, when the descriptor `input` is at its end.
  template <class Driver>
  int wait_for(const Driver& driver, int input, const std::function<void()>& input_ended) {
    input_ = input;
    input_ended_ = input_ended;
    return wait_for(driver);
  }

private:
  /// `interrupt(signal)` returns true if the wait is to end.
  int wait(const std::function<bool(int)>& interrupt);
  /// Whether the input has ended. Unexpected input is dropped.
  bool has_input_ended() const;

  descriptor done_, superseded_, interrupts_;
  int input_ = -1;
  std::function<void()> input_ended_;
  std::atomic<int> code_{0};
};

} // namespace farandole
