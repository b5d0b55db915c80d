// The deadline of a process that waits in init() until it is a member: the start timeout, or in an elastic job
// the elastic timeout. In an elastic job the time in which the other members train does not count: a process
// that arrives late joins at their next commit, however far off that is. The rendezvous notifies waiting
// processes when a generation forms (messages/wire/membership.hpp, awaited); without a notification the
// members may be training.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>

#include "messages/settings/settings.hpp"

namespace farandole {

/// The setting with the timeout: the elastic timeout if members may come and go, else the start timeout.
setting join_timeout(const settings& values);

/// Thread-safe: the event loop calls pause() and resume(), and the thread in init() waits for the deadline.
class join_deadline {
public:
  using time_point = std::chrono::steady_clock::time_point;
  using duration = std::chrono::nanoseconds;

  /// A deadline that never passes, for members that no thread waits for.
  join_deadline() = default;
  /// `patience` counts from `current_time`. `elastic`: members may train without this process.
  join_deadline(bool elastic, duration patience, time_point current_time);

  /// This process has asked the rendezvous for admission. In an elastic job the deadline pauses.
  void pause(time_point current_time);
  /// The deadline runs again from `since`: a generation forms since then, this process has become a member, or
  /// it has no link to the rendezvous.
  void resume(time_point since);

  /// When the deadline passes; while it is paused, the earliest time at which it could pass.
  time_point deadline(time_point current_time) const;
  bool over(time_point current_time) const { return current_time >= deadline(current_time); }

private:
  mutable std::mutex mutex_; ///< held only to copy the fields
  bool elastic_ = false;
  time_point deadline_ = time_point::max(); ///< without the time of the current pause
  std::optional<time_point> paused_since_;
};

} // namespace farandole
