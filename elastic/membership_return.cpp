// Membership that outlives its rendezvous: what is kept of it, and how members come back.
#include <algorithm>
#include <utility>

#include "elastic/membership.hpp"

namespace farandole {

namespace {

seat_image empty_seat(std::int32_t slot) {
  seat_image one;
  one.slot = slot;
  return one;
}

} // namespace

membership membership::restored(const job_image& image, std::uint64_t epoch) {
  membership job{{image.size, image.elastic, image.least, image.most}, epoch};
  job.slots_by_rank_ = image.slots_by_rank;
  job.generation_ = image.generation;
  job.changes_ = image.changes;
  job.removals_only_ = image.removals_only;
  job.lost_somebody_ = image.lost_somebody;
  job.state_generation_ = image.state_generation;
  job.running_ = image.running;
  for (const auto& from : image.seats) {
    auto& to = job.seats_[from.slot];
    to.in_generation = to.untold = from.in_generation;
    to.awaited = from.awaited;
    to.retired = from.retired;
    to.ended = from.ended;
    to.end_reason = from.end_reason;
    if (to.ended && !job.first_ended_)
      job.first_ended_ = from.slot;
    to.last_rank = from.last_rank;
    to.announced.slot = from.slot;
    to.announced.host = from.host;
    to.announced.host_name = from.host_name;
    to.announced.address = from.address;
    to.announced.process = from.process;
  }
  return job;
}

job_image membership::image() const {
  job_image image;
  image.epoch = epoch_;
  image.size = rules_.size;
  image.least = rules_.least;
  image.most = rules_.most;
  image.elastic = rules_.elastic;
  image.running = running_;
  image.removals_only = removals_only_;
  image.lost_somebody = lost_somebody_;
  image.state_generation = state_generation_;
  image.generation = generation_;
  image.changes = changes_;
  image.slots_by_rank = slots_by_rank_;
  image.seats.reserve(seats_.size());
  for (const auto& [slot, from] : seats_) {
    auto& to = image.seats.emplace_back(empty_seat(slot));
    // Who came again before its farewell did may have left or lost somebody: another rendezvous could not
    // hear which, so it has to take this seat for one that is in and has not come back.
    to.in_generation = from.in_generation || (running_ && from.earlier);
    to.awaited = from.awaited;
    to.retired = from.retired;
    to.ended = from.ended;
    to.end_reason = from.end_reason;
    to.last_rank = from.last_rank;
    if (!to.in_generation)
      continue;
    to.host = from.announced.host;
    to.host_name = from.announced.host_name;
    to.address = from.announced.address;
    to.process = from.announced.process;
  }
  return image;
}

bool membership::is_known_as(const seat& one, const std::string& host, std::int64_t process) const {
  return one.announced.process == process && one.announced.host == host;
}

membership_decision membership::come_back(route from, const returning& who) {
  membership_decision out;
  if (who.epoch > epoch_) {
    out.superseded_by = who.epoch;
    out.superseded_from = from;
    return out;
  }
  const auto refuse = [&](std::string why) {
    out.refusals.push_back({from, {std::move(why)}});
    return out;
  };
  const auto slot = "slot " + std::to_string(who.slot);
  if (who.wire_version != wire_version)
    return refuse("wire version " + std::to_string(who.wire_version) + " does not match this job's " +
                  std::to_string(wire_version) + ": start every process with the same Farandole");
  const auto found = seats_.find(who.slot);
  if (found == seats_.end())
    return refuse(slot + " is not known to this rendezvous: was it started without its journal?");
  if (const auto held = slot_of(from); held && *held != who.slot)
    return refuse("this connection has joined already, as slot " + std::to_string(*held));
  auto& seat = found->second;
  if (seat.ended)
    return refuse(slot + " " + seat.end_reason + " and cannot come again");
  if (who.generation > generation_)
    return refuse("this rendezvous knows generations up to " + std::to_string(generation_) + " and not " +
                  std::to_string(who.generation) + ": was it started without its journal?");
  if (who.generation < generation_ || !running_ || !seat.in_generation) {
    out.notices.push_back(
        {from, {who.generation, -1, "has ended this generation while the rendezvous could not be reached"}});
    return out;
  }
  if (!is_known_as(seat, who.host, who.process) || seat.last_rank != who.rank)
    return refuse(slot + " is rank " + std::to_string(seat.last_rank) + " and process " +
                  std::to_string(seat.announced.process) + " on " + seat.announced.host_name + ", not rank " +
                  std::to_string(who.rank) + " and process " + std::to_string(who.process));
  seat.link = from;
  out.resumptions.push_back({from, {generation_, epoch_, changes_, removals_only_}});
  return out;
}

membership_decision membership::give_up_absent() {
  membership_decision out;
  std::vector<std::int32_t> absent;
  for (auto& [slot, seat] : seats_)
    if (is_absent(seat)) {
      absent.push_back(slot);
      seat.awaited = false;
    }
  if (absent.empty())
    return out;
  ++revision_;
  end_generation(absent.front(), "has not come back to the rendezvous, which was away", out);
  start_if_ready(out);
  return out;
}

} // namespace farandole
