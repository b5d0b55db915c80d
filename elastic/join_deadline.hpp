// How long may a process wait in init() until it is a member? As long as the start timeout says, or in an
// elastic job the elastic timeout. There the time in which the others train does not count: a process that
// comes late joins at their next commit, however far off that is. The rendezvous tells those that wait when
// members come together (messages/wire/membership.hpp, awaited); as long as it says nothing, they may be training.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>

#include "messages/settings/settings.hpp"

namespace farandole {

/// The setting that says how long: the elastic timeout where members may come and go, else the start timeout.
setting join_timeout(const settings& values);

/// Thread-safe: the event loop tells it what happens, and the thread in init() waits by it.
class join_deadline {
public:
  using time_point = std::chrono::steady_clock::time_point;
  using duration = std::chrono::nanoseconds;

  /// Never over; for members that nobody waits for.
  join_deadline() = default;
  /// `patience` counts from `now` on. `elastic`: members may train without this process.
  join_deadline(bool elastic, duration patience, time_point current_time);

  /// The rendezvous is asked to let this process in.
  void pause(time_point current_time);
  /// Members come together since then, this process has become one of them, or there is no link to the
  /// rendezvous.
  void resume(time_point since);

  /// When it is over; while it is paused, the earliest time at which it could be.
  time_point deadline(time_point current_time) const;
  bool over(time_point current_time) const { return current_time >= deadline(current_time); }

private:
  mutable std::mutex guard_; ///< held for copies only
  bool elastic_ = false;
  time_point deadline_ = time_point::max(); ///< while it is not paused
  std::optional<time_point> paused_since_;
};

} // namespace farandole
