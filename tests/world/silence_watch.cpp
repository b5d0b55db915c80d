#include "tests/world/silence_watch.hpp"

#include <algorithm>

namespace farandole::testing {

namespace {

// The time until all members know of a silence, or of its end.
constexpr std::chrono::seconds news_travel{5};

std::string seconds_of(std::chrono::nanoseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(time).count()) + " ms";
}

} // namespace

void silence_watch::continued(std::int32_t slot, time_point current_time) {
  if (stopped_.erase(slot) != 0)
    continued_[slot] = current_time;
}

std::string silence_watch::objection(const waiting_member& waiting, std::int32_t other,
                                     time_point current_time) const {
  const auto stop = stopped_.find(other);
  if (stop == stopped_.end() || stopped_.contains(waiting.slot))
    return {};
  auto since = std::max({stop->second, waiting.in_since, disturbed_until_});
  // The members that could notice the silence may have been stopped as well, and notice it only after they
  // continue.
  for (const auto& [slot, when] : continued_)
    since = std::max(since, when);
  const auto text = "slot " + std::to_string(waiting.slot) + " has ";
  const auto of = " slot " + std::to_string(other) + ", whose process is stopped, for ";
  const auto stuck = std::max(rules_.stuck_timeout, rules_.minimum());
  if (rules_.stuck_timeout.count() > 0 && current_time - since > stuck + news_travel)
    return text + "been in a generation with" + of + seconds_of(current_time - since);
  if (waiting.waits_since)
    if (const auto waits = current_time - std::max(since, *waiting.waits_since);
        waits > rules_.operation_timeout + news_travel)
      return text + "waited for" + of + seconds_of(waits);
  return {};
}

std::string silence_watch::false_alarm(std::int32_t slot, time_point current_time) const {
  if (links_disturbed_ || stopped_.contains(slot))
    return {};
  if (const auto found = continued_.find(slot);
      found != continued_.end() && current_time - found->second < news_travel)
    return {};
  return "slot " + std::to_string(slot) + " was reported as stopped, but its process runs";
}

} // namespace farandole::testing
