// Which processes of the job make no progress, as far as this process can tell. It sees the heartbeats of
// some members itself (in shared memory, or over a link) and hears from the members at the other ends of its
// links about the rest.
//
// A silence is measured by this process' own looks, not by the clock alone: the time in which it did not
// look, because it was stopped itself or got no core, counts for nobody. So a process that continues after a
// long stop does not take the others for stopped, and no two processes compare their clocks.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "messages/wire/heartbeat.hpp"

namespace farandole {

class heartbeat_monitor {
public:
  using time_point = std::chrono::steady_clock::time_point;
  using duration = std::chrono::nanoseconds;

  /// `period`: how often every member gives a sign of life, and look() is called.
  explicit heartbeat_monitor(duration period = std::chrono::seconds{1}) : period_(period) {}

  /// From now on this member is watched: its silence grows with every look that finds no sign of life.
  void watch(std::int32_t rank);
  /// The word that this member counts its heartbeats in, as it stands now; any change is a sign of life.
  void observe(std::int32_t rank, std::uint32_t word);
  /// A sign of life of this member.
  void beat(std::int32_t rank);
  /// What the member at the other end of a link says of those that it watches, or was told of by others; it
  /// replaces what that member said before.
  void told(std::int32_t teller, std::vector<silence> silent);

  /// Counts the time since the last look as silence for all that are watched; at most two periods of it.
  void look(time_point current_time);

  /// Those that have been silent for at least so long, ascending. What this process sees itself counts for
  /// more than what it is told.
  std::vector<silence> silent(duration minimum) const;
  /// Of those, what to tell the member `receiver`: not what it says itself, nor its own silence.
  std::vector<silence> news_for(std::int32_t receiver, duration minimum) const;

private:
  struct watched {
    duration lasted{0};
    std::optional<std::uint32_t> word; ///< as it was seen last
  };
  std::map<std::int32_t, silence> gather(duration minimum, std::int32_t but_of) const;

  duration period_;
  std::optional<time_point> looked_;
  std::map<std::int32_t, watched> watched_;           ///< by rank
  std::map<std::int32_t, std::vector<silence>> told_; ///< by teller
};

} // namespace farandole
