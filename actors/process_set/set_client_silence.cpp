// The part of the set client that reacts to members whose processes make no progress.
#include <algorithm>
#include <iterator>

#include "actors/interfaces/heartbeats.hpp"
#include "actors/process_set/set_client.hpp"

namespace farandole {

// How long the oldest operation has waited. Operations at the leader count from the first report, in the current
// unbroken series of reports, that found any of them. That is accurate enough: no operation of a set completes
// while one of its members is silent, so the series is long enough when it matters.
std::chrono::nanoseconds set_client_state::longest_wait() {
  const auto current_time = self->clock().now();
  if (current_time - judged_at_ > 2 * setup_.stuck.period() || operations_.empty())
    asked_since_.reset();
  judged_at_ = current_time;
  if (!asked_since_ && !operations_.empty())
    asked_since_ = current_time;
  const std::chrono::nanoseconds asked =
      asked_since_ ? current_time - *asked_since_ : current_time - current_time;
  return std::max(asked, fast_path_.longest_wait(current_time));
}

void set_client_state::judge(const processes_silent& report) {
  if (end_reason_)
    return;
  std::vector<silence> needed;
  std::copy_if(
      report.ranks.begin(), report.ranks.end(), std::back_inserter(needed),
      [this](const silence& silent_member) { return setup_.depends_on.contains(silent_member.rank); });
  if (const auto culprit = setup_.stuck.holds_up(needed, longest_wait()))
    self->send(setup_.member, operations_held_up{*culprit});
}

} // namespace farandole
