#include "messages/wire/job_image.hpp"

#include <algorithm>

#include "messages/wire/decoding.hpp"
#include "messages/wire/journal.capnp.h"
#include "messages/wire/membership.hpp"

namespace farandole {

namespace {

using wire_form::count_of;
using wire_form::read_text;
using wire_form::shortened;
using wire_form::text_limit_bytes;
using wire_form::text_of;
using wire_form::verdict;
using wire_form::write_each;
using wire_form::write_numbers;

void write_seat(wire::Seat::Builder to, const seat_image& value) {
  to.setSlot(value.slot);
  to.setInGeneration(value.in_generation);
  to.setAwaited(value.awaited);
  to.setRetired(value.retired);
  to.setEnded(value.ended);
  to.setLastRank(value.last_rank);
  to.setEndReason(text_of(shortened(value.end_reason)));
  to.setHost(text_of(value.host));
  to.setHostName(text_of(value.host_name));
  to.setAddress(text_of(value.address));
  to.setProcess(value.process);
}

seat_image read_seat(wire::Seat::Reader from, verdict& so_far) {
  const auto text = [&](capnp::Text::Reader content) {
    return read_text(content, text_limit_bytes, "a text is too long", so_far);
  };
  seat_image value;
  value.slot = from.getSlot();
  value.in_generation = from.getInGeneration();
  value.awaited = from.getAwaited();
  value.retired = from.getRetired();
  value.ended = from.getEnded();
  value.last_rank = from.getLastRank();
  value.end_reason = text(from.getEndReason());
  value.host = text(from.getHost());
  value.host_name = text(from.getHostName());
  value.address = text(from.getAddress());
  value.process = from.getProcess();
  so_far.require(value.last_rank >= -1 && value.last_rank < member_limit, "a rank is out of range");
  return value;
}

void read_job(wire::Job::Reader from, job_image& value, verdict& so_far) {
  value.epoch = from.getEpoch();
  value.launcher = from.getLauncher();
  value.size = from.getSize();
  value.minimum = from.getLeast();
  value.limit = from.getMost();
  value.elastic = from.getElastic();
  value.running = from.getRunning();
  value.removals_only = from.getRemovalsOnly();
  value.lost_somebody = from.getLostSomebody();
  value.state_generation = from.getStateGeneration();
  value.generation = from.getGeneration();
  value.changes = from.getChanges();
  so_far.require(1 <= value.minimum && value.minimum <= value.size && value.size <= value.limit &&
                     value.limit <= member_limit,
                 "the sizes of the job are out of range");
  const auto slots = from.getSlotsByRank();
  if (!so_far.require(slots.size() <= static_cast<kj::uint>(member_limit), "there are too many members"))
    return;
  for (const auto slot : slots)
    value.slots_by_rank.push_back(slot);
  const auto seats = from.getSeats();
  value.seats.reserve(seats.size());
  for (auto entry : seats) {
    auto seat = read_seat(entry, so_far);
    const auto minimum = value.seats.empty() ? 0 : value.seats.back().slot + 1;
    if (!so_far.require(seat.slot >= minimum && seat.slot < INT32_MAX, "seats are not in order of slots"))
      return;
    value.seats.push_back(std::move(seat));
  }
}

} // namespace

job_image difference(const job_image& before, const job_image& current) {
  job_image change = current;
  change.seats.clear();
  std::set_difference(current.seats.begin(), current.seats.end(), before.seats.begin(), before.seats.end(),
                      std::back_inserter(change.seats),
                      [](const seat_image& a, const seat_image& b) { return a.slot < b.slot; });
  for (auto old = before.seats.begin(); const auto& seat : current.seats) {
    while (old != before.seats.end() && old->slot < seat.slot)
      ++old;
    if (old != before.seats.end() && old->slot == seat.slot && *old != seat)
      change.seats.push_back(seat);
  }
  std::sort(change.seats.begin(), change.seats.end(),
            [](const seat_image& a, const seat_image& b) { return a.slot < b.slot; });
  return change;
}

void apply(const job_image& change, job_image& to) {
  auto seats = std::move(to.seats);
  for (const auto& seat : change.seats) {
    const auto place = std::lower_bound(seats.begin(), seats.end(), seat.slot,
                                        [](const seat_image& a, std::int32_t slot) { return a.slot < slot; });
    if (place != seats.end() && place->slot == seat.slot)
      *place = seat;
    else
      seats.insert(place, seat);
  }
  to = change;
  to.seats = std::move(seats);
}

std::vector<std::byte> encode(const job_image& value) {
  return wire_form::bytes_of<wire::Job>([&](wire::Job::Builder to) {
    to.setEpoch(value.epoch);
    to.setLauncher(value.launcher);
    to.setSize(value.size);
    to.setLeast(value.minimum);
    to.setMost(value.limit);
    to.setElastic(value.elastic);
    to.setRunning(value.running);
    to.setRemovalsOnly(value.removals_only);
    to.setLostSomebody(value.lost_somebody);
    to.setStateGeneration(value.state_generation);
    to.setGeneration(value.generation);
    to.setChanges(value.changes);
    write_numbers(to.initSlotsByRank(count_of(value.slots_by_rank)), value.slots_by_rank);
    write_each(to.initSeats(count_of(value.seats)), value.seats, write_seat);
  });
}

expected<job_image> decode_job_image(std::span<const std::byte> bytes) {
  return wire_form::decode_bytes<job_image, wire::Job>(bytes, "image of a job", read_job);
}

} // namespace farandole
