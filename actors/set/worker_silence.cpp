// What a worker does when it hears that members' processes make no progress.
#include <algorithm>
#include <iterator>

#include "actors/interfaces/heartbeats.hpp"
#include "actors/set/worker.hpp"

namespace farandole {

// What waits at the leader has waited since the first of these messages in a row that found something there:
// nothing of a set completes while one of its members is silent, and so the row is long enough when it
// matters.
std::chrono::nanoseconds worker_state::longest_wait() {
  const auto now = self->clock().now();
  if (now - judged_at_ > 2 * setup_.stuck.period() || operations_.empty())
    asked_since_.reset();
  judged_at_ = now;
  if (!asked_since_ && !operations_.empty())
    asked_since_ = now;
  const std::chrono::nanoseconds asked = asked_since_ ? now - *asked_since_ : now - now;
  return std::max(asked, board_.longest_wait(now));
}

void worker_state::judge(const processes_silent& what) {
  if (over_)
    return;
  std::vector<silence> needed;
  std::copy_if(what.ranks.begin(), what.ranks.end(), std::back_inserter(needed),
               [this](const silence& one) { return setup_.depends_on.contains(one.rank); });
  if (const auto culprit = setup_.stuck.holds_up(needed, longest_wait()))
    self->send(setup_.member, operations_held_up{*culprit});
}

} // namespace farandole
