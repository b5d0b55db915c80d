#include "elastic/seat_table.hpp"

#include <algorithm>

namespace farandole {

namespace {

member_seat seat_from(const seat_image& image) {
  member_seat seat;
  seat.in_generation = seat.untold = image.in_generation;
  seat.awaited = image.awaited;
  seat.retired = image.retired;
  seat.ended = image.ended;
  seat.end_reason = image.end_reason;
  seat.last_rank = image.last_rank;
  seat.announced.slot = image.slot;
  seat.announced.host = image.host;
  seat.announced.host_name = image.host_name;
  seat.announced.address = image.address;
  seat.announced.process = image.process;
  return seat;
}

seat_image image_of(std::int32_t slot, const member_seat& seat, bool running) {
  seat_image image;
  image.slot = slot;
  // The process said hello again before its farewell arrived, so it may have left or lost another member.
  // A restarted rendezvous could not learn which, so it must treat the seat as a member that has not
  // reconnected.
  image.in_generation = seat.in_generation || (running && seat.earlier);
  image.awaited = seat.awaited;
  image.retired = seat.retired;
  image.ended = seat.ended;
  image.end_reason = seat.end_reason;
  image.last_rank = seat.last_rank;
  if (!image.in_generation)
    return image;
  image.host = seat.announced.host;
  image.host_name = seat.announced.host_name;
  image.address = seat.announced.address;
  image.process = seat.announced.process;
  return image;
}

} // namespace

bool seat_table::expect(std::int32_t slot, const std::string& host) {
  const auto [position, is_new] = seats_.try_emplace(slot);
  if (!host.empty())
    position->second.host = host;
  return is_new;
}

const member_seat* seat_table::find(std::int32_t slot) const {
  const auto found = seats_.find(slot);
  return found == seats_.end() ? nullptr : &found->second;
}

member_seat* seat_table::find(std::int32_t slot) {
  const auto found = seats_.find(slot);
  return found == seats_.end() ? nullptr : &found->second;
}

// ---- by link ---------------------------------------------------------------------------------------

std::optional<std::int32_t> seat_table::slot_of(route from) const {
  for (const auto& [slot, seat] : seats_)
    if (seat.link == from)
      return slot;
  return std::nullopt;
}

std::optional<std::int32_t> seat_table::reporter_of(route from) const {
  for (const auto& [slot, seat] : seats_)
    if (seat.link == from || seat.earlier == from)
      return slot;
  return std::nullopt;
}

std::optional<route> seat_table::link_of_same_process(const hello& request) const {
  const auto* seat = find(request.slot);
  if (!seat || request.process == 0)
    return std::nullopt;
  return seat->in_generation && seat->is_of(request.host, request.process) ? seat->link : std::nullopt;
}

bool seat_table::some_present() const {
  return std::any_of(seats_.begin(), seats_.end(),
                     [](const auto& entry) { return entry.second.is_present(); });
}

std::map<std::int32_t, route> seat_table::present() const {
  std::map<std::int32_t, route> found;
  for (const auto& [slot, seat] : seats_)
    if (seat.is_present())
      found.emplace(slot, *seat.link);
  return found;
}

bool seat_table::all_left() const {
  return std::none_of(seats_.begin(), seats_.end(),
                      [](const auto& entry) { return entry.second.in_generation; });
}

// ---- changes of a whole seat -----------------------------------------------------------------------

void seat_table::end_process(std::int32_t slot, const std::string& reason) {
  auto& seat = seats_.at(slot);
  seat.ended = true;
  if (!first_ended_)
    first_ended_ = slot; // later ends may be consequences of this one
  seat.end_reason = reason;
  seat.awaited = false;
  seat.link.reset();
}

std::vector<std::int32_t> seat_table::give_up_missing(bool in_generation_only) {
  std::vector<std::int32_t> given_up;
  for (auto& [slot, seat] : seats_)
    if (!seat.link && (seat.in_generation || !in_generation_only)) {
      seat.awaited = false;
      given_up.push_back(slot);
    }
  return given_up;
}

void seat_table::start_generation(const std::vector<std::int32_t>& slots_by_rank, bool elastic) {
  for (auto& [slot, seat] : seats_) {
    seat.last_rank = -1;
    seat.earlier.reset();
    seat.in_generation = false;
    seat.awaited = !elastic && !seat.ended;
  }
  std::int32_t rank = 0;
  for (const auto slot : slots_by_rank) {
    auto& seat = seats_.at(slot);
    seat.in_generation = seat.awaited = true;
    seat.last_rank = rank++;
  }
}

// ---- images ----------------------------------------------------------------------------------------

void seat_table::restore(const std::vector<seat_image>& images) {
  for (const auto& image : images) {
    seats_[image.slot] = seat_from(image);
    if (image.ended && !first_ended_)
      first_ended_ = image.slot;
  }
}

std::vector<seat_image> seat_table::image(bool running) const {
  std::vector<seat_image> images;
  images.reserve(seats_.size());
  for (const auto& [slot, seat] : seats_)
    images.push_back(image_of(slot, seat, running));
  return images;
}

} // namespace farandole
