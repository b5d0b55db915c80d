// Injects a schedule of faults into a running trial, and reverts temporary faults when their time is over.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/farandole/chaos/report.hpp"
#include "tools/farandole/chaos/schedule.hpp"
#include "tools/farandole/chaos/trial.hpp"

namespace farandole::chaos {

class disturbance {
public:
  using time_point = std::chrono::steady_clock::time_point;

  /// `begin` is time zero of the schedule. A fault that has no possible victim delays itself and the rest of the
  /// schedule. At `end` the remaining faults are left out. `on` must outlive this object.
  disturbance(trial& on, std::vector<fault> schedule, std::int32_t fewest, time_point begin, time_point end);
  ~disturbance();
  disturbance(const disturbance&) = delete;
  disturbance& operator=(const disturbance&) = delete;

  /// Injects the faults and reverts the temporary faults that are due.
  void go_on(time_point current_time);
  /// The faults that were not reached yet.
  std::vector<fault> left() const;
  /// The elapsed time of the schedule.
  std::chrono::milliseconds gone(time_point current_time) const;
  /// The outcomes of the faults until now, from the events that the trial has seen.
  std::vector<outcome> outcomes() const;

private:
  struct done {
    fault injected;
    double at_ms = 0;
    std::optional<seat> victim; ///< nothing: the fault was left out, or its kind does not hit a member
    std::uint64_t generation = 0;
    std::string hit;  ///< the victim, for the report
    std::string note; ///< the reason if the fault was left out
  };
  struct repair {
    time_point at;
    std::function<void()> carry_out;
  };

  /// The reason why the fault has no possible victim now; empty if it has one.
  std::string hindrance(const fault& injected) const;
  void inject(const fault& injected, time_point current_time);
  /// The reason why the injection failed; empty if it succeeded.
  std::string hit_member(const fault& injected, const seat& victim, time_point current_time);
  std::string hit_rendezvous(const fault& injected, time_point current_time);
  outcome outcome_of(const done& done, double until_ms) const;

  trial& on_;
  std::vector<fault> schedule_;
  std::size_t reached_ = 0;
  std::int32_t fewest_;
  time_point begin_; ///< moved forward when a fault is delayed
  time_point end_;
  std::vector<done> done_;
  std::vector<repair> repairs_;
};

} // namespace farandole::chaos
