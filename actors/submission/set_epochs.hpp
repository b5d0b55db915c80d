// The epochs of a process set. A set that fails restarts, and every start begins an epoch. A call belongs to the
// epoch that its caller has seen last. Callers see an epoch end by an error: from waiting for an operation that
// failed with it or, if there was none or no caller has waited yet, from the next submission, which fails at once.
// So the callers on each member are told of every restart at least once, before any of their submissions counts in
// the next epoch, and members that all do the same stay in step.
//
// One object serves one process set on one member through all its epochs, which are counted from 0. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "messages/values/error.hpp"

namespace farandole {

class set_epochs {
public:
  /// The current epoch has ended for this reason, and the next one begins. Called by the event loop.
  void restarted(error reason);
  /// The set has ended: from now on, submissions in an earlier epoch fail with this error.
  void over(error reason);

  /// The error of a submission in this epoch; none if it may proceed. The error counts as told to the caller.
  error refuse(std::uint64_t epoch);
  /// A caller has been given the error of an operation of this epoch.
  void reported(std::uint64_t epoch);

  std::uint64_t now() const { return current_.load(std::memory_order_acquire); }
  /// The epoch that the callers have seen.
  std::uint64_t seen() const { return number_.load(std::memory_order_acquire); }

private:
  void see(std::uint64_t epoch);

  std::mutex mutex_; ///< held only briefly
  std::atomic<std::uint64_t> current_{0};
  std::atomic<std::uint64_t> number_{0};
  std::deque<error> unreported_; ///< errors that ended the epochs from number_ on
  error last_;                   ///< error that ended the latest ended epoch, or the set
};

/// One epoch. The global set has none: it ends with its generation.
struct set_epoch {
  std::shared_ptr<set_epochs> epochs;
  std::uint64_t number = 0;

  error refuse() const { return epochs ? epochs->refuse(number) : error{}; }
  void reported() const {
    if (epochs)
      epochs->reported(number);
  }
  /// Whether the callers have been told of all restarts, so that they may submit to the newest epoch.
  bool all_reported() const { return !epochs || epochs->seen() == epochs->now(); }
};

} // namespace farandole
