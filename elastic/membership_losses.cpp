// Who is lost, by whose word, and what follows for the generation that was.
#include <algorithm>
#include <utility>

#include "elastic/membership.hpp"

namespace farandole {

membership_decision membership::disconnect(route from, const std::string& reason) {
  membership_decision out;
  std::int32_t slot = 0;
  if (auto* seat = seat_of(from, &slot)) {
    seat->link.reset();
    if (rules_.elastic && std::exchange(seat->awaited, false))
      ++revision_;
    end_generation(slot, reason, out);
    start_if_ready(out);
  }
  // It had come again, but not because it had left.
  for (auto& [number, seat] : seats_)
    if (seat.earlier == from) {
      seat.earlier.reset();
      if (running_)
        end_running(number, reason, out);
      start_if_ready(out);
    }
  return out;
}

membership_decision membership::exit(std::int32_t slot, const std::string& reason) {
  membership_decision out;
  const auto found = seats_.find(slot);
  if (found == seats_.end())
    return out;
  ++revision_;
  auto& gone = found->second;
  gone.ended = true;
  if (!first_ended_)
    first_ended_ = slot; // the others may end because this one did
  gone.end_reason = reason;
  gone.awaited = false;
  gone.link.reset();
  end_generation(slot, reason, out);
  if (!rules_.elastic)
    refuse_waiting("the job cannot form: slot " + std::to_string(slot) + " " + reason, out, slot);
  start_if_ready(out);
  return out;
}

// Whoever already waits for the next generation waits in vain. Who has never been in an elastic job is left
// to the launcher: it knows whether there is a member that still trains, and has not failed. To the launcher
// a member of the last generation is one that trains, even if it never heard that it is in.
void membership::refuse_waiting(const std::string& reason, membership_decision& out, std::int32_t culprit) {
  const auto is_left_alone = [&](const seat& one) {
    return rules_.elastic && generation_ > 0 && one.last_rank < 0 && one.announced.state_generation == 0 &&
           !was_in_last(one.announced.slot);
  };
  for (auto& [slot, seat] : seats_)
    if (!running_ && seat.link && !seat.in_generation && !is_left_alone(seat)) {
      out.refusals.push_back({*seat.link, {reason, false, culprit}});
      if (culprit >= 0)
        out.consequences.push_back({slot, culprit});
      seat.link.reset();
    }
}

membership_decision membership::report(route from, const lost& what) {
  membership_decision out;
  const auto reporter = reporter_of(from);
  if (!reporter || what.generation != generation_)
    return out;
  if (what.rank < 0 || what.rank >= static_cast<std::int32_t>(slots_by_rank_.size())) {
    end_generation(*reporter,
                   "reported the loss of rank " + std::to_string(what.rank) +
                       ", which its generation does not have",
                   out);
    return out;
  }
  const auto slot = slots_by_rank_[static_cast<std::size_t>(what.rank)];
  // One that has said hello again meanwhile is alive, and its place in the next generation is its own.
  if (auto& gone = seats_.at(slot); rules_.elastic && what.stuck && running_ && gone.in_generation)
    gone.awaited = false;
  end_generation(slot, what.reason, out);
  start_if_ready(out); // all others may have come again
  return out;
}

membership_decision membership::give_up_waiting(std::uint64_t generation) {
  membership_decision out;
  if (!rules_.elastic || generation != generation_)
    return out;
  if (running_)
    return give_up_absent();
  ++revision_;
  for (auto& [slot, seat] : seats_)
    if (!seat.link)
      seat.awaited = false;
  start_if_ready(out);
  return out;
}

// Everybody still in hears of the loss once; nobody is a member of the ended generation any more. Who was
// lost but lives is welcome again.
void membership::end_generation(std::int32_t slot, const std::string& reason, membership_decision& out) {
  if (running_ && seats_.at(slot).in_generation)
    end_running(slot, reason, out);
}

void membership::end_running(std::int32_t slot, const std::string& reason, membership_decision& out) {
  auto& gone = seats_.at(slot);
  ++revision_;
  running_ = false;
  lost_somebody_ = true;
  const auto rank = gone.last_rank;
  if (!gone.awaited)
    gone.last_rank = -1;
  for (auto& [other, seat] : seats_) {
    if (!seat.in_generation)
      continue; // it has left already, and may be waiting for the next generation
    if (seat.link)
      out.notices.push_back({*seat.link, lost{generation_, rank, reason}});
    if (other != slot)
      out.consequences.push_back({other, slot});
    seat.in_generation = false;
    seat.link.reset();
  }
}

} // namespace farandole
