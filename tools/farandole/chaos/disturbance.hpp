// Carries out a schedule of faults on a running trial, and takes back what does not last.
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

  /// `begin`: the schedule's zero. A fault that can hit nobody waits, and the rest with it, until `end`; then
  /// what is left is left out. The trial outlives this.
  disturbance(trial& on, std::vector<fault> schedule, std::int32_t fewest, time_point begin, time_point end);
  ~disturbance();
  disturbance(const disturbance&) = delete;
  disturbance& operator=(const disturbance&) = delete;

  /// Does what is due.
  void go_on(time_point current_time);
  /// Those that it has not come to, and how much of the schedule's time is over.
  std::vector<fault> left() const;
  std::chrono::milliseconds gone(time_point current_time) const;
  /// So far, with what the trial has seen until now.
  std::vector<outcome> outcomes() const;

private:
  struct done {
    fault injected;
    double at_ms = 0;
    std::optional<seat> victim; ///< nothing: it was left out, or hits no member
    std::uint64_t generation = 0;
    std::string hit;  ///< for people
    std::string note; ///< why it was left out
  };
  struct repair {
    time_point at;
    std::function<void()> carry_out;
  };

  /// Why it can hit nobody now; empty: it can.
  std::string hindrance(const fault& injected) const;
  void inject(const fault& injected, time_point current_time);
  /// Why it could not be done; empty: it was.
  std::string hit_member(const fault& injected, const seat& victim, time_point current_time);
  std::string hit_rendezvous(const fault& injected, time_point current_time);
  outcome outcome_of(const done& done, double until_ms) const;

  trial& on_;
  std::vector<fault> schedule_;
  std::size_t reached_ = 0;
  std::int32_t fewest_;
  time_point begin_; ///< later by what faults had to wait
  time_point end_;
  std::vector<done> done_;
  std::vector<repair> repairs_;
};

} // namespace farandole::chaos
