// Whether those who wait may be the next generation: enough of them, and somebody who knows how far the
// training is.
#include <algorithm>

#include "elastic/membership.hpp"

namespace farandole {

// The first generation is to have as many as were asked for. Where one of them has ended before, those who
// are left do not wait for others, if they are enough.
bool membership::may_start(std::size_t waiting) const {
  const auto wanted = [&](std::int32_t count) { return waiting >= static_cast<std::size_t>(count); };
  if (generation_ > 0 || wanted(rules_.size))
    return wanted(rules_.least);
  const auto ended = [](const auto& each) { return each.second.ended; };
  const auto may_come = [](const auto& each) {
    return !each.second.ended && !each.second.retired && !each.second.link;
  };
  return wanted(rules_.least) && std::any_of(seats_.begin(), seats_.end(), ended) &&
         std::none_of(seats_.begin(), seats_.end(), may_come);
}

bool membership::was_in_last(std::int32_t slot) const {
  return std::find(slots_by_rank_.begin(), slots_by_rank_.end(), slot) != slots_by_rank_.end();
}

// Whether its training state is the newest that there is. A member of the last generation has it if it was
// brought to it there, or had it when that generation began: where one member was not brought to the state,
// none has committed anything, for what is committed is committed by all. Who was not in the last generation
// has missed what the others committed.
bool membership::holds_state(const candidate& one) const {
  const auto own = one.said->state_generation;
  if (own == 0 || generation_ == 0)
    return own != 0;
  return was_in_last(one.slot) && (own == generation_ || own == state_generation_);
}

// Whether all that were in the last generation wait already, or never come again.
bool membership::nobody_returns() const {
  return std::all_of(slots_by_rank_.begin(), slots_by_rank_.end(), [&](std::int32_t slot) {
    const auto& seat = seats_.at(slot);
    return seat.ended || seat.retired || seat.link;
  });
}

// Training must not begin anew, or from an older state, where it has been further. Who has never been in
// waits for somebody who has; if there is none, the launcher ends the job. Who was to be brought to the
// others' state, and has lost them before that, is told so, whether its training function was about to begin
// or not.
bool membership::somebody_knows(const std::vector<candidate>& waiting, membership_decision& out) {
  const auto any = [&](const auto& is_so) { return std::any_of(waiting.begin(), waiting.end(), is_so); };
  if (generation_ == 0 || any([&](const candidate& one) { return holds_state(one); }))
    return true;
  if (any([](const candidate& one) { return one.last_rank >= 0; })) {
    if (!lost_somebody_ || state_generation_ == 0)
      return true;
  } else {
    // A member that was lost with the last generation and has no state shows that nobody has trained in it.
    if (state_generation_ == 0 && any([&](const candidate& one) { return was_in_last(one.slot); }))
      return true;
    if (!nobody_returns())
      return false;
  }
  refuse_waiting(
      "all members that knew how far the training is were lost before this process had joined them: "
      "the job cannot go on from there",
      out);
  return false;
}

void membership::refuse_if_in_vain(membership_decision& out) {
  if (!nobody_comes_)
    return;
  const auto left = std::count_if(seats_.begin(), seats_.end(), [](const auto& each) {
    return !each.second.ended && !each.second.retired;
  });
  if (left >= rules_.least)
    return;
  refuse_waiting("there will be no other generation: the training of other members has come to its end, so "
                 "nobody is started any more, and of the " +
                     std::to_string(rules_.least) + " members that a generation needs (--min-np) " +
                     std::to_string(left) + (left == 1 ? " is left" : " are left"),
                 out);
}

// Who begins anew is new where others go on with what they had: its init() had not come to an end when
// members were lost, so it never had anything. So is who has not been brought to the training state where
// others have it, in whatever order they ranked: rank 0 gives its state to all.
void membership::take_as_new_who_begins_anew(std::vector<candidate>& waiting) {
  take_as_new(waiting, [&](const candidate& one) { return holds_state(one); });
  take_as_new(waiting, [](const candidate& one) { return one.last_rank >= 0 && one.said->keeps_sets; });
}

void membership::take_as_new(std::vector<candidate>& waiting,
                             const std::function<bool(const candidate&)>& goes_on) {
  if (std::none_of(waiting.begin(), waiting.end(), goes_on))
    return;
  for (auto& one : waiting)
    if (!goes_on(one))
      one.last_rank = seats_.at(one.slot).last_rank = -1;
}

} // namespace farandole
