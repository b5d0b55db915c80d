#include "elastic/membership.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace farandole {

namespace {

refused taken_out(std::int32_t slot) {
  return {"slot " + std::to_string(slot) + " has been taken out of the job, which goes on without it", true};
}

} // namespace

membership::membership(membership_rules rules, std::uint64_t epoch) : rules_(rules), epoch_(epoch) {
  assert(rules.size >= 1 && rules.size <= member_limit);
  assert(!rules.elastic || (rules.least >= 1 && rules.least <= rules.size && rules.size <= rules.most));
  if (rules_.elastic)
    return;
  rules_.least = rules_.most = rules_.size;
  for (std::int32_t slot = 0; slot < rules_.size; ++slot)
    seats_[slot].awaited = true;
}

// ---- who may come ----------------------------------------------------------------------------------

void membership::expect(std::int32_t slot, const std::string& host) {
  const auto [position, is_new] = seats_.try_emplace(slot);
  if (is_new)
    ++revision_;
  if (!host.empty())
    position->second.host = host;
}

std::optional<refused> membership::objection(const hello& request) const {
  const auto slot = "slot " + std::to_string(request.slot);
  if (request.wire_version != wire_version)
    return refused{"wire version " + std::to_string(request.wire_version) + " does not match this job's " +
                   std::to_string(wire_version) + ": start every process with the same Farandole"};
  if (!rules_.elastic && request.size != rules_.size)
    return refused{slot + " expects " + std::to_string(request.size) + " members, but the job has " +
                   std::to_string(rules_.size) + ": check HOROVOD_SIZE"};
  const auto found = seats_.find(request.slot);
  if (found == seats_.end())
    return refused{slot + (rules_.elastic ? " was not started by this job's launcher"
                                          : " is not in 0.." + std::to_string(rules_.size - 1) +
                                                ": check HOROVOD_RANK")};
  if (!rules_.elastic)
    if (first_ended_)
      return refused{"the job cannot form again: slot " + std::to_string(*first_ended_) + " " +
                         seats_.at(*first_ended_).end_reason,
                     false, *first_ended_};
  auto& seat = found->second;
  if (seat.retired)
    return taken_out(request.slot);
  if (seat.ended)
    return refused{slot + " " + seat.end_reason + " and cannot come again"};
  if (seat.link || is_absent(seat))
    return refused{slot + " is taken by process " + std::to_string(seat.announced.process) + " on " +
                   seat.announced.host_name};
  return std::nullopt;
}

membership_decision membership::join(route from, const hello& request) {
  membership_decision out;
  if (request.epoch > epoch_) {
    out.superseded_by = request.epoch;
    out.superseded_from = from;
    return out;
  }
  if (std::int32_t slot = 0; seat_of(from, &slot)) {
    out.refusals.push_back({from, {"this connection has joined already, as slot " + std::to_string(slot)}});
    return out;
  }
  // A process that comes again may be faster than its own farewell, for two links keep no order between them.
  if (auto earlier = same_process(request)) {
    auto* seat = seat_of(*earlier);
    seat->link.reset();
    seat->in_generation = false;
    seat->earlier = earlier;
    ++revision_;
    end_if_all_left();
  }
  // One that was in, by the word of an earlier rendezvous, and has not come back but starts anew: whether it
  // left or lost somebody is not known, so its generation ends as by a loss.
  if (const auto found = seats_.find(request.slot); found != seats_.end() && is_absent(found->second))
    if (is_known_as(found->second, request.host, request.process))
      end_generation(request.slot, "has left while there was no rendezvous", out);
  if (auto why = objection(request)) {
    if (why->culprit >= 0 && why->culprit != request.slot)
      out.consequences.push_back({request.slot, why->culprit});
    out.refusals.push_back({from, std::move(*why)});
    start_if_ready(out);
    return out;
  }
  auto& seat = seats_[request.slot];
  seat.link = from;
  seat.announced = request;
  if (seat.earlier)
    ++revision_; // image() tells of it as of a member
  // It has never been told of any generation, so it was not in the last one either; in the first, nobody was
  // before anybody else.
  if (std::exchange(seat.untold, false) && request.epoch == 0 && generation_ > 1) {
    seat.last_rank = -1;
    ++revision_;
  }
  auto stays = [](const auto& each) { return each.second.in_generation && !each.second.retired; };
  // A member that comes again before the last farewell is nobody new.
  const bool is_new = seat.last_rank < 0;
  if (rules_.elastic && is_new && running_ &&
      std::count_if(seats_.begin(), seats_.end(), stays) < rules_.most)
    change(false, out);
  start_if_ready(out);
  return out;
}

std::optional<route> membership::same_process(const hello& request) const {
  const auto found = seats_.find(request.slot);
  if (found == seats_.end() || request.process == 0)
    return std::nullopt;
  auto& seat = found->second;
  auto same = seat.announced.process == request.process && seat.announced.host == request.host;
  return same && seat.in_generation ? seat.link : std::nullopt;
}

// ---- who goes, by plan -----------------------------------------------------------------------------

membership_decision membership::leave(route from, std::uint64_t generation) {
  membership_decision out;
  std::int32_t slot = 0;
  if (auto* seat = seat_of(from, &slot)) {
    // Were it only forgotten, nobody would notice that it goes.
    if (running_ && seat->in_generation && generation != generation_)
      end_running(slot,
                  "left generation " + std::to_string(generation) + ", but is in generation " +
                      std::to_string(generation_),
                  out);
    seat->link.reset();
    if (generation == generation_ && std::exchange(seat->in_generation, false))
      ++revision_;
    end_if_all_left();
    start_if_ready(out);
  }
  for (auto& [slot, seat] : seats_)
    if (seat.earlier == from) {
      seat.earlier.reset();
      ++revision_;
    }
  return out;
}

void membership::end_if_all_left() {
  auto gone = [](const auto& each) { return !each.second.in_generation; };
  running_ = running_ && !std::all_of(seats_.begin(), seats_.end(), gone);
}

membership_decision membership::retire(std::int32_t slot) {
  membership_decision out;
  const auto found = seats_.find(slot);
  if (found == seats_.end() || std::exchange(found->second.retired, true))
    return out;
  ++revision_;
  auto& seat = found->second;
  seat.awaited = false;
  if (seat.in_generation)
    change(true, out);
  else if (seat.link)
    out.refusals.push_back({*std::exchange(seat.link, {}), taken_out(slot)});
  start_if_ready(out);
  return out;
}

membership_decision membership::nobody_comes() {
  membership_decision out;
  nobody_comes_ = true;
  start_if_ready(out);
  return out;
}

// Who is in learns it and ends the generation at a commit; how many changes there were tells one from the
// next.
void membership::change(bool removal, membership_decision& out) {
  ++revision_;
  ++changes_;
  removals_only_ = removals_only_ && removal;
  for (auto& [slot, seat] : seats_)
    if (seat.in_generation && seat.link)
      out.warnings.push_back({*seat.link, {generation_, changes_, removals_only_}});
}

// ---- the next generation ---------------------------------------------------------------------------

void membership::start_if_ready(membership_decision& out) {
  if (running_)
    return;
  refuse_if_in_vain(out);
  std::vector<candidate> waiting;
  for (auto& [slot, seat] : seats_) {
    if (seat.link && !seat.retired)
      waiting.push_back({slot, seat.last_rank, &seat.announced});
    else if (seat.awaited)
      return;
  }
  if (may_start(waiting.size()) && somebody_knows(waiting, out))
    start_generation(std::move(waiting), out);
}

void membership::start_generation(std::vector<candidate> waiting, membership_decision& out) {
  take_as_new_who_begins_anew(waiting);
  auto all = ranked(std::move(waiting), static_cast<std::size_t>(rules_.most));
  auto agrees = [&](const member& one) {
    auto& seat = seats_.at(one.slot);
    return seat.last_rank >= 0 && seat.announced.progress == seats_.at(all.front().slot).announced.progress;
  };
  const bool some_left = changes_ > 0 && removals_only_ && !lost_somebody_;
  const bool must_sync = !some_left || !std::all_of(all.begin(), all.end(), agrees);
  auto sets = surviving_sets_of(all);
  std::uint64_t newest = 0;
  for (auto& one : all)
    if (auto& seat = seats_.at(one.slot); holds_state({one.slot, seat.last_rank, &seat.announced}))
      newest = std::max(newest, seat.announced.state_generation);
  state_generation_ = newest;
  ++revision_;
  ++generation_;
  running_ = true;
  for (auto& one : all) {
    auto& seat = seats_.at(one.slot);
    out.admissions.push_back({*seat.link, one.rank, generation_ > 1 && seat.last_rank < 0});
  }
  slots_by_rank_.clear();
  for (auto& [slot, seat] : seats_) {
    seat.last_rank = -1;
    seat.earlier.reset();
    seat.in_generation = false;
    seat.awaited = !rules_.elastic && !seat.ended;
  }
  for (auto& one : all) {
    auto& seat = seats_.at(one.slot);
    seat.in_generation = seat.awaited = true;
    seat.last_rank = one.rank;
    slots_by_rank_.push_back(one.slot);
  }
  changes_ = 0;
  removals_only_ = true;
  lost_somebody_ = false;
  auto& told = out.roster;
  told.generation = generation_;
  told.epoch = epoch_;
  told.members = std::move(all);
  told.must_sync = must_sync;
  told.sets_kept = sets.kept;
  told.sets = std::move(sets.sets);
}

surviving_sets membership::surviving_sets_of(const std::vector<member>& all) const {
  std::vector<survivor> survivors;
  for (auto& one : all)
    if (auto& seat = seats_.at(one.slot); seat.last_rank >= 0)
      survivors.push_back({one.slot, one.rank, &seat.announced});
  return surviving(survivors);
}

// ---- looking up ------------------------------------------------------------------------------------

bool membership::forming() const {
  return !running_ && std::any_of(seats_.begin(), seats_.end(),
                                  [](const auto& each) { return each.second.link && !each.second.retired; });
}

std::map<std::int32_t, route> membership::waiting() const {
  std::map<std::int32_t, route> found;
  for (const auto& [slot, seat] : seats_)
    if (!running_ && seat.link && !seat.retired)
      found.emplace(slot, *seat.link);
  return found;
}

// Where enough have come, the generation waits only for those who were in the one before.
awaited membership::missing() const {
  awaited found;
  found.arrived = static_cast<std::uint32_t>(waiting().size());
  const auto needed = static_cast<std::uint32_t>(generation_ == 0 ? rules_.size : rules_.least);
  const bool too_few = found.arrived < needed;
  std::uint32_t count = 0;
  for (const auto& [slot, seat] : seats_) {
    const bool may_come = rules_.elastic && too_few && !seat.ended && !seat.retired;
    if (seat.link || !(seat.awaited || may_come))
      continue;
    if (++count <= awaited_limit)
      found.missing.push_back({slot, seat.host.empty() ? seat.announced.host_name : seat.host});
  }
  found.size = std::max(needed, found.arrived + count);
  return found;
}

std::optional<std::int32_t> membership::slot_of(route from) const {
  for (const auto& [number, seat] : seats_)
    if (seat.link == from)
      return number;
  return std::nullopt;
}

std::optional<std::int32_t> membership::reporter_of(route from) const {
  for (const auto& [number, seat] : seats_)
    if (seat.link == from || seat.earlier == from)
      return number;
  return std::nullopt;
}

membership::seat* membership::seat_of(route from, std::int32_t* slot) {
  for (auto& [number, seat] : seats_)
    if (seat.link == from) {
      if (slot)
        *slot = number;
      return &seat;
    }
  return nullptr;
}

} // namespace farandole
