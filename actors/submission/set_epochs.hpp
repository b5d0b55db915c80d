// A process set that fails starts anew, and every start is an epoch. Which epoch does a call belong to? To
// the one that its caller has seen, and callers see an epoch end by an error: by waiting for an operation
// that failed with it, or, where none did or nobody has looked yet, by the next submission, which fails at
// once. So each member's callers are told of each restart, at least once and before anything of theirs counts
// in the next epoch, and members that all do the same stay in step.
//
// One object serves one process set on one member through all its epochs; epochs are counted from 0. For any
// thread.
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
  /// The epoch has ended for this reason, and the next begins. The loop.
  void restarted(error reason);
  /// The set is at its end: from now on, who comes too late for an epoch is told this.
  void over(error reason);

  /// Why a submission by this epoch's door fails, if it does; its caller has then been told.
  error refuse(std::uint64_t epoch);
  /// Somebody has been given the error of an operation of this epoch.
  void told(std::uint64_t epoch);

  std::uint64_t now() const { return current_.load(std::memory_order_acquire); }
  /// The epoch that the callers have seen.
  std::uint64_t seen() const { return number_.load(std::memory_order_acquire); }

private:
  void see(std::uint64_t epoch);

  std::mutex mutex_; ///< held for moments
  std::atomic<std::uint64_t> current_{0};
  std::atomic<std::uint64_t> number_{0};
  std::deque<error> untold_; ///< why the epochs from seen_ on ended
  error last_;               ///< why the last one did that ended
};

/// One epoch. The global set has none: it ends with its generation.
struct set_epoch {
  std::shared_ptr<set_epochs> of;
  std::uint64_t number = 0;

  error refuse() const { return of ? of->refuse(number) : error{}; }
  void told() const {
    if (of)
      of->told(number);
  }
  /// Nobody needs to be told before something may be asked of the newest epoch.
  bool all_told() const { return !of || of->seen() == of->now(); }
};

} // namespace farandole
