#include "elastic/membership.hpp"

#include <algorithm>
#include <cassert>
#include <map>

namespace farandole {

membership::membership(std::int32_t size, std::uint64_t epoch)
    : seats_(static_cast<std::size_t>(size)), epoch_(epoch) {
  assert(size >= 1 && size <= member_limit);
}

std::optional<std::string> membership::objection(const hello& request) const {
  if (request.wire_version != wire_version)
    return "wire version " + std::to_string(request.wire_version) + " does not match this job's " +
           std::to_string(wire_version) + ": start every process with the same Farandole";
  auto size = static_cast<std::int32_t>(seats_.size());
  if (request.size != size)
    return "slot " + std::to_string(request.slot) + " expects " + std::to_string(request.size) +
           " members, but the job has " + std::to_string(size) + ": check HOROVOD_SIZE";
  if (request.slot < 0 || request.slot >= size)
    return "slot " + std::to_string(request.slot) + " is not in 0.." + std::to_string(size - 1) +
           ": check HOROVOD_RANK";
  for (std::int32_t slot = 0; slot < size; ++slot) {
    auto& seat = seats_[static_cast<std::size_t>(slot)];
    if (seat.ended)
      return "the job cannot form again: slot " + std::to_string(slot) + " " + seat.end_reason;
  }
  auto& seat = seats_[static_cast<std::size_t>(request.slot)];
  if (seat.link)
    return "slot " + std::to_string(request.slot) + " is taken by process " +
           std::to_string(seat.announced.process) + " on " + seat.announced.host_name;
  return std::nullopt;
}

membership_decision membership::join(route from, const hello& request) {
  membership_decision out;
  // A process that comes again may be faster than its own farewell, for two links keep no order between them.
  if (auto earlier = same_process(request))
    leave(*earlier, generation_);
  if (auto reason = objection(request)) {
    out.refusals.push_back({from, std::move(*reason)});
    return out;
  }
  auto& seat = seats_[static_cast<std::size_t>(request.slot)];
  seat.link = from;
  seat.announced = request;
  auto ready = [](const auto& s) { return s.link.has_value() && !s.in_generation; };
  if (!running_ && std::all_of(seats_.begin(), seats_.end(), ready))
    start_generation(out);
  return out;
}

membership_decision membership::leave(route from, std::uint64_t generation) {
  if (auto slot = slot_of(from)) {
    auto& seat = seats_[static_cast<std::size_t>(*slot)];
    seat.link.reset();
    if (generation == generation_)
      seat.in_generation = false;
    auto gone = [](const auto& s) { return !s.in_generation; };
    if (running_ && std::all_of(seats_.begin(), seats_.end(), gone))
      running_ = false;
  }
  return {};
}

membership_decision membership::disconnect(route from, const std::string& reason) {
  membership_decision out;
  if (auto slot = slot_of(from)) {
    seats_[static_cast<std::size_t>(*slot)].link.reset();
    end_generation(*slot, reason, out);
  }
  return out;
}

membership_decision membership::exit(std::int32_t slot, const std::string& reason) {
  membership_decision out;
  if (slot < 0 || slot >= static_cast<std::int32_t>(seats_.size()))
    return out;
  auto& gone = seats_[static_cast<std::size_t>(slot)];
  gone.ended = true;
  gone.end_reason = reason;
  gone.link.reset();
  end_generation(slot, reason, out);
  // Whoever already waits for the next generation waits in vain.
  for (auto& seat : seats_)
    if (!running_ && seat.link && !seat.in_generation) {
      out.refusals.push_back(
          {*seat.link, "the job cannot form: slot " + std::to_string(slot) + " " + reason});
      seat.link.reset();
    }
  return out;
}

membership_decision membership::report(route from, const lost& what) {
  membership_decision out;
  auto known = what.rank >= 0 && what.rank < static_cast<std::int32_t>(seats_.size());
  if (slot_of(from) && known && what.generation == generation_)
    end_generation(what.rank, what.reason, out); // so far, a member's rank is its slot
  return out;
}

std::string membership::missing() const {
  std::string text;
  for (std::size_t slot = 0; slot < seats_.size(); ++slot)
    if (!seats_[slot].link)
      text += (text.empty() ? "" : ", ") + std::to_string(slot);
  return text;
}

std::optional<route> membership::same_process(const hello& request) const {
  if (request.slot < 0 || request.slot >= static_cast<std::int32_t>(seats_.size()) || request.process == 0)
    return std::nullopt;
  auto& seat = seats_[static_cast<std::size_t>(request.slot)];
  auto same = seat.announced.process == request.process && seat.announced.host == request.host;
  return same && seat.in_generation ? seat.link : std::nullopt;
}

std::optional<std::int32_t> membership::slot_of(route from) const {
  for (std::size_t slot = 0; slot < seats_.size(); ++slot)
    if (seats_[slot].link == from)
      return static_cast<std::int32_t>(slot);
  return std::nullopt;
}

void membership::start_generation(membership_decision& out) {
  ++generation_;
  running_ = true;
  auto all = members();
  for (std::size_t slot = 0; slot < seats_.size(); ++slot) {
    seats_[slot].in_generation = true;
    welcome value;
    value.generation = generation_;
    value.epoch = epoch_;
    value.rank = static_cast<std::int32_t>(slot);
    value.members = all;
    out.admissions.push_back({*seats_[slot].link, std::move(value)});
  }
}

// Everybody still in hears of the loss once; nobody is a member of the ended generation any more.
void membership::end_generation(std::int32_t slot, const std::string& reason, membership_decision& out) {
  if (!running_ || !seats_[static_cast<std::size_t>(slot)].in_generation)
    return;
  running_ = false;
  for (std::size_t other = 0; other < seats_.size(); ++other) {
    auto& seat = seats_[other];
    if (!seat.in_generation)
      continue; // it has left already, and may be waiting for the next generation
    if (seat.link)
      out.notices.push_back({*seat.link, lost{generation_, slot, reason}});
    seat.in_generation = false;
    seat.link.reset();
  }
}

std::vector<member> membership::members() const {
  std::map<std::string, std::int32_t> on_host;
  std::vector<member> all;
  for (std::size_t slot = 0; slot < seats_.size(); ++slot) {
    auto& announced = seats_[slot].announced;
    member one;
    one.rank = one.slot = static_cast<std::int32_t>(slot);
    one.host = announced.host;
    one.host_name = announced.host_name;
    one.address = announced.address;
    one.local_rank = on_host[announced.host]++;
    all.push_back(std::move(one));
  }
  // cross_rank: index among the hosts that have this local rank.
  std::map<std::int32_t, std::int32_t> with_local_rank;
  for (auto& one : all) {
    one.local_size = on_host[one.host];
    one.cross_rank = with_local_rank[one.local_rank]++;
  }
  for (auto& one : all)
    one.cross_size = with_local_rank[one.local_rank];
  return all;
}

} // namespace farandole
