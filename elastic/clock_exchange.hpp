// Measures the steady clock of another process by questions and answers over a link, as NTP does (RFC 5905, section 8).
// A question and its answer yield four times: the question is sent at t1 and received at t2, the answer is sent at t3 and
// received at t4; t1 and t4 by this process's clock, t2 and t3 by the other's. The other clock is ahead by
// ((t2 - t1) + (t3 - t4)) / 2, and the error is at most half of the time that the messages travelled, (t4 - t1) - (t3 - t2).
// Of a round of exchanges, the fastest one has the smallest error. Two rounds yield the drift.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "messages/record/event_recorder.hpp"
#include "messages/wire/heartbeat.hpp"

namespace farandole {

class clock_exchange {
public:
  using time = std::chrono::nanoseconds; ///< reading of a steady clock

  static constexpr int exchanges_per_round = 16;
  /// Rounds at shorter distances do not change the drift.
  static constexpr time shortest_drift_time = std::chrono::seconds{5};

  /// `peer`: the rank of the member whose clock is measured.
  explicit clock_exchange(std::int32_t peer = -1) : peer_(peer) {}

  /// Begins a round. Returns its first question. A round that has not ended is given up.
  clock_reading begin_round(time current_time);
  /// An answer has arrived. Returns the next question; nothing if the round is complete, or if this is no answer to the
  /// last question.
  std::optional<clock_reading> answered(const clock_reading& answer, time current_time);

  /// Nothing before the end of the first round.
  const std::optional<recorded_clock>& result() const { return result_; }

  /// The answer to a question that arrived at `received`.
  static clock_reading answer(const clock_reading& question, time received, time current_time);

private:
  struct measurement {
    time offset{0};
    time bound{0};
    time when{0};
  };
  static measurement measured(const clock_reading& answer, time current_time);
  clock_reading ask(time current_time);
  void end_round();

  std::int32_t peer_;
  std::optional<time> asked_;        ///< time of the question that waits for its answer
  int remaining_ = 0;                ///< exchanges of this round
  std::optional<measurement> best_;  ///< of this round
  std::optional<measurement> first_; ///< result of the first round
  std::optional<recorded_clock> result_;
};

} // namespace farandole
