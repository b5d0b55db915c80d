#include "elastic/membership.hpp"

#include <algorithm>
#include <utility>

#include "elastic/admission.hpp"

namespace farandole {

namespace {

roster roster_of(next_generation next, std::uint64_t generation, std::uint64_t epoch) {
  roster value;
  value.generation = generation;
  value.epoch = epoch;
  value.members = std::move(next.members);
  value.must_sync = next.must_sync;
  value.sets_kept = next.sets.kept;
  value.sets = std::move(next.sets.sets);
  return value;
}

} // namespace

membership::membership(membership_rules rules, std::uint64_t epoch) : formation_(rules), epoch_(epoch) {
  if (rules.elastic)
    return;
  for (std::int32_t slot = 0; slot < rules.size; ++slot) {
    slots_.expect(slot, {});
    slots_.at(slot).awaited = true;
  }
}

membership membership::restored(const job_image& image, std::uint64_t epoch) {
  membership job{{image.size, image.elastic, image.minimum, image.limit}, epoch};
  job.generation_ = generation_record::restored(image);
  job.slots_.restore(image.slot_images);
  return job;
}

job_image membership::image() const {
  const auto& rules = formation_.rules();
  job_image image;
  image.epoch = epoch_;
  image.size = rules.size;
  image.minimum = rules.minimum;
  image.limit = rules.limit;
  image.elastic = rules.elastic;
  generation_.store(image);
  image.slot_images = slots_.image(running());
  return image;
}

std::map<std::int32_t, link_id> membership::waiting() const {
  return running() ? std::map<std::int32_t, link_id>{} : slots_.present();
}

// ---- joining ---------------------------------------------------------------------------------------

void membership::expect(std::int32_t slot, const std::string& host) {
  if (slots_.expect(slot, host))
    ++revision_;
}

membership_decision membership::join(link_id from, const hello& request) {
  membership_decision decision;
  if (request.epoch > epoch_) {
    decision.superseded_by = request.epoch;
    decision.superseded_from = from;
    return decision;
  }
  if (const auto slot = slot_of(from)) {
    decision.refusals.push_back(
        {from, {"this connection has joined already, as slot " + std::to_string(*slot)}});
    return decision;
  }
  // A process's next hello may overtake its farewell, because two links have no order between them.
  if (const auto earlier = slots_.link_of_same_process(request)) {
    auto& record = slots_.at(request.slot);
    record.link.reset();
    record.in_generation = false;
    record.earlier = earlier;
    ++revision_;
    if (slots_.all_left())
      generation_.end_in_order();
  }
  // A member according to an earlier rendezvous starts anew instead of reconnecting. It is unknown whether it
  // left or lost another member, so its generation ends as by a loss.
  if (const auto* record = slots_.find(request.slot);
      record && record->is_absent() && record->is_of(request.host, request.process))
    lose(request.slot, "left while the rendezvous was down", decision);
  if (auto reason = objection(request, formation_.rules(), slots_)) {
    if (reason->culprit >= 0 && reason->culprit != request.slot)
      decision.consequences.push_back({request.slot, reason->culprit});
    decision.refusals.push_back({from, std::move(*reason)});
    start_if_ready(decision);
    return decision;
  }
  take_slot(from, request, decision);
  start_if_ready(decision);
  return decision;
}

void membership::take_slot(link_id from, const hello& request, membership_decision& decision) {
  auto& record = slots_.at(request.slot);
  record.link = from;
  record.announced = request;
  if (record.earlier)
    ++revision_; // image() describes it as a member
  // The process never learned of any generation, so it was not in the last one either. In the first generation
  // this makes no difference, because no member precedes another.
  if (std::exchange(record.notice_uncertain, false) && request.epoch == 0 && generation() > 1) {
    record.last_rank = -1;
    ++revision_;
  }
  const auto stays = [](const auto& entry) { return entry.second.in_generation && !entry.second.retired; };
  // A member that says hello again before the last farewell is not new.
  const bool is_new = record.last_rank < 0;
  const auto& rules = formation_.rules();
  if (rules.elastic && is_new && running() &&
      std::count_if(slots_.begin(), slots_.end(), stays) < rules.limit)
    change(false, decision);
}

membership_decision membership::come_back(link_id from, const returning& request) {
  membership_decision decision;
  if (request.epoch > epoch_) {
    decision.superseded_by = request.epoch;
    decision.superseded_from = from;
    return decision;
  }
  auto decision_on_return = check_return(from, request, slots_, generation_);
  switch (decision_on_return.result) {
  case return_decision::kind::turned_away:
    decision.refusals.push_back({from, std::move(decision_on_return.reason)});
    break;
  case return_decision::kind::generation_ended:
    decision.loss_notices.push_back(
        {from,
         {request.generation, -1, "has ended this generation while the rendezvous could not be reached"}});
    break;
  case return_decision::kind::resumes:
    slots_.at(request.slot).link = from;
    const auto changes = generation_.pending_changes();
    decision.resumptions.push_back({from, {generation(), epoch_, changes.count, changes.removals_only}});
  }
  return decision;
}

// ---- leaving by plan -------------------------------------------------------------------------------

membership_decision membership::leave(link_id from, std::uint64_t generation) {
  membership_decision decision;
  if (const auto slot = slot_of(from)) {
    auto& record = slots_.at(*slot);
    // Merely dropping the link would hide from the other members that this one is gone.
    if (generation != this->generation())
      lose(*slot,
           "left generation " + std::to_string(generation) + ", but is in generation " +
               std::to_string(this->generation()),
           decision);
    record.link.reset();
    if (generation == this->generation() && std::exchange(record.in_generation, false))
      ++revision_;
    if (slots_.all_left())
      generation_.end_in_order();
    start_if_ready(decision);
  }
  for (auto& [slot, record] : slots_)
    if (record.earlier == from) {
      record.earlier.reset();
      ++revision_;
    }
  return decision;
}

membership_decision membership::retire(std::int32_t slot) {
  membership_decision decision;
  auto* record = slots_.find(slot);
  if (!record || std::exchange(record->retired, true))
    return decision;
  ++revision_;
  record->awaited = false;
  if (record->in_generation)
    change(true, decision);
  else if (record->link)
    decision.refusals.push_back({*std::exchange(record->link, {}), taken_out(slot)});
  start_if_ready(decision);
  return decision;
}

membership_decision membership::no_more_starts() {
  membership_decision decision;
  formation_.no_more_starts();
  start_if_ready(decision);
  return decision;
}

// The running members are notified, and end the generation at a commit.
void membership::change(bool removal, membership_decision& decision) {
  ++revision_;
  generation_.change(removal);
  for (const auto& [slot, record] : slots_)
    if (record.in_generation && record.link)
      decision.change_notices.push_back({*record.link, generation_.pending_changes()});
}

// ---- losses ----------------------------------------------------------------------------------------

membership_decision membership::disconnect(link_id from, const std::string& reason) {
  membership_decision decision;
  if (const auto slot = slot_of(from)) {
    auto& record = slots_.at(*slot);
    record.link.reset();
    if (formation_.rules().elastic && std::exchange(record.awaited, false))
      ++revision_;
    lose(*slot, reason, decision);
    start_if_ready(decision);
  }
  // The process had said hello again, but its earlier link ended without a farewell.
  for (auto& [slot, record] : slots_)
    if (record.earlier == from) {
      record.earlier.reset();
      if (running())
        end_generation(slot, reason, decision);
      start_if_ready(decision);
    }
  return decision;
}

membership_decision membership::exit(std::int32_t slot, const std::string& reason) {
  membership_decision decision;
  if (!knows(slot))
    return decision;
  ++revision_;
  slots_.end_process(slot, reason);
  lose(slot, reason, decision);
  if (!formation_.rules().elastic)
    refuse_waiting("the job cannot form: slot " + std::to_string(slot) + " " + reason, decision, slot);
  start_if_ready(decision);
  return decision;
}

membership_decision membership::report(link_id from, const lost& loss) {
  membership_decision decision;
  const auto reporter = slots_.reporter_of(from);
  if (!reporter || loss.generation != generation())
    return decision;
  const auto slot = generation_.slot_of_rank(loss.rank);
  if (!slot) {
    lose(*reporter,
         "reported the loss of rank " + std::to_string(loss.rank) + ", which its generation does not have",
         decision);
    return decision;
  }
  // A member that has said hello again meanwhile is alive and keeps its place in the next generation.
  auto& record = slots_.at(*slot);
  if (formation_.rules().elastic && loss.stuck && running() && record.in_generation)
    record.awaited = false;
  lose(*slot, loss.reason, decision);
  start_if_ready(decision); // all others may be waiting already
  return decision;
}

membership_decision membership::give_up_waiting(std::uint64_t generation) {
  membership_decision decision;
  if (!formation_.rules().elastic || generation != this->generation())
    return decision;
  const auto given_up = slots_.give_up_missing(running());
  if (running() && given_up.empty())
    return decision;
  ++revision_;
  if (running())
    lose(given_up.front(), "did not reconnect after the rendezvous had been down", decision);
  start_if_ready(decision);
  return decision;
}

void membership::lose(std::int32_t slot, const std::string& reason, membership_decision& decision) {
  if (running() && slots_.at(slot).in_generation)
    end_generation(slot, reason, decision);
}

// Each remaining member is notified of the loss once, and the ended generation has no members any more. A
// lost member whose process is alive may join again.
void membership::end_generation(std::int32_t culprit, const std::string& reason,
                                membership_decision& decision) {
  ++revision_;
  generation_.end_by_loss();
  auto& lost_slot = slots_.at(culprit);
  const auto rank = lost_slot.last_rank;
  if (!lost_slot.awaited)
    lost_slot.last_rank = -1;
  for (auto& [slot, record] : slots_) {
    if (!record.in_generation)
      continue; // it has left already, and may be waiting for the next generation
    if (record.link)
      decision.loss_notices.push_back({*record.link, lost{generation(), rank, reason}});
    if (slot != culprit)
      decision.consequences.push_back({slot, culprit});
    record.in_generation = false;
    record.link.reset();
  }
}

// ---- the next generation ---------------------------------------------------------------------------

void membership::start_if_ready(membership_decision& decision) {
  auto formed = formation_.decide(slots_, generation_);
  if (!formed.refusal.empty())
    refuse_waiting(formed.refusal, decision);
  if (!formed.start)
    return;
  ++revision_;
  auto& next = *formed.start;
  std::vector<std::int32_t> slots_by_rank;
  for (const auto& member : next.members) {
    const auto joined_late = next.joined_late[slots_by_rank.size()];
    decision.admissions.push_back({*slots_.at(member.slot).link, member.rank, joined_late});
    slots_by_rank.push_back(member.slot);
  }
  slots_.start_generation(slots_by_rank, formation_.rules().elastic);
  generation_.start(std::move(slots_by_rank), next.state_generation);
  decision.roster = roster_of(std::move(next), generation(), epoch_);
}

// Refuses all processes that wait for the next generation. In an elastic job, processes that were never
// members are left to the launcher: it knows whether a member still trains and has not failed. To the launcher
// a member of the last generation is one that trains, even if it never learned that it was admitted, so such a
// process is refused here.
void membership::refuse_waiting(const std::string& reason, membership_decision& decision,
                                std::int32_t culprit) {
  if (running())
    return;
  const auto is_left_alone = [&](const slot_record& record) {
    return formation_.rules().elastic && generation() > 0 && record.last_rank < 0 &&
           record.announced.state_generation == 0 && !generation_.has(record.announced.slot);
  };
  for (auto& [slot, record] : slots_)
    if (record.link && !record.in_generation && !is_left_alone(record)) {
      decision.refusals.push_back({*record.link, {reason, false, culprit}});
      if (culprit >= 0)
        decision.consequences.push_back({slot, culprit});
      record.link.reset();
    }
}

} // namespace farandole
