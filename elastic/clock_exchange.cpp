#include "elastic/clock_exchange.hpp"

#include <cmath>
#include <utility>

namespace farandole {

clock_reading clock_exchange::begin_round(time current_time) {
  remaining_ = exchanges_per_round;
  best_.reset();
  return ask(current_time);
}

std::optional<clock_reading> clock_exchange::answered(const clock_reading& answer, time current_time) {
  if (!answer.is_answer || !asked_ || *asked_ != answer.asked || current_time < answer.asked)
    return std::nullopt;
  asked_.reset();
  const auto next = measured(answer, current_time);
  if (next.bound > time{0} && (!best_ || next.bound < best_->bound))
    best_ = next;
  if (--remaining_ > 0)
    return ask(current_time);
  end_round();
  return std::nullopt;
}

clock_reading clock_exchange::answer(const clock_reading& question, time received, time current_time) {
  return {question.asked, true, received, current_time};
}

// The times that are added have opposite signs or are differences, so nothing overflows within the limits of the wire.
clock_exchange::measurement clock_exchange::measured(const clock_reading& answer, time current_time) {
  const auto travelled = (current_time - answer.asked) - (answer.sent - answer.received);
  const auto offset = ((answer.received - answer.asked) + (answer.sent - current_time)) / 2;
  // One nanosecond more, because both quotients are rounded.
  return {offset, travelled / 2 + time{1}, answer.asked + (current_time - answer.asked) / 2};
}

clock_reading clock_exchange::ask(time current_time) {
  asked_ = current_time;
  return {current_time, false, {}, {}};
}

void clock_exchange::end_round() {
  if (!best_)
    return;
  const auto last = *std::exchange(best_, std::nullopt);
  if (!first_)
    first_ = last;
  recorded_clock clock{peer_, last.offset, last.bound, last.when, 0};
  if (const auto between = last.when - first_->when; between >= shortest_drift_time)
    clock.drift_parts_per_billion = std::llround(static_cast<double>((last.offset - first_->offset).count()) /
                                                 static_cast<double>(between.count()) * 1e9);
  else if (result_)
    clock.drift_parts_per_billion = result_->drift_parts_per_billion;
  result_ = clock;
}

} // namespace farandole
