// Detects processes of the job that make no progress, as far as this process can tell. It observes the
// heartbeats of some members itself (in shared memory, or over a link), and receives reports about the rest
// from the members at the other ends of its links.
//
// A silence is measured by this process's own calls of look(), not by the clock alone: a long time without
// such a call, because this process was stopped or got no core, is not counted as silence of any member. So a
// process that continues after a long stop does not take the others for stopped, and no two processes compare
// their clocks.
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

  /// `period`: the interval between the heartbeats of a member, and between the calls of look().
  explicit heartbeat_monitor(duration period = std::chrono::seconds{1}) : period_(period) {}

  /// Starts to watch a member: its silence grows with every look() until its next sign of life.
  void watch(std::int32_t rank);
  /// The current value of the member's heartbeat counter; any change is a sign of life.
  void observe(std::int32_t rank, std::uint32_t word);
  /// A sign of life of this member.
  void beat(std::int32_t rank);
  /// The silences that the member at the other end of a link observed itself or learned from others. They
  /// replace the previous report of that member.
  void report(std::int32_t reporter, std::vector<silence> silent);

  /// Adds the time since the last look, at most two periods, to the silence of all watched members.
  void look(time_point current_time);

  /// Members that have been silent for at least `minimum`, by ascending rank. This process's own observations
  /// take precedence over reports.
  std::vector<silence> silent(duration minimum) const;
  /// The part of silent() to send to member `receiver`: without its own reports and its own silence.
  std::vector<silence> news_for(std::int32_t receiver, duration minimum) const;

private:
  struct watched {
    duration lasted{0};
    std::optional<std::uint32_t> word; ///< last observed value
  };
  std::map<std::int32_t, silence> gather(duration minimum, std::int32_t but_of) const;

  duration period_;
  std::optional<time_point> looked_;
  std::map<std::int32_t, watched> watched_;              ///< by rank
  std::map<std::int32_t, std::vector<silence>> reports_; ///< by teller
};

} // namespace farandole
