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
using wire_form::validation;
using wire_form::write_each;
using wire_form::write_numbers;

void write_slot(wire::SlotRecord::Builder to, const slot_image& value) {
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

slot_image read_slot(wire::SlotRecord::Reader from, validation& so_far) {
  const auto text = [&](capnp::Text::Reader content) {
    return read_text(content, text_limit_bytes, "a text is too long", so_far);
  };
  slot_image value;
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

void read_job(wire::Job::Reader from, job_image& value, validation& so_far) {
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
  const auto slot_images = from.getSlots();
  value.slot_images.reserve(slot_images.size());
  for (auto entry : slot_images) {
    auto record = read_slot(entry, so_far);
    const auto minimum = value.slot_images.empty() ? 0 : value.slot_images.back().slot + 1;
    if (!so_far.require(record.slot >= minimum && record.slot < INT32_MAX,
                        "slots are not in ascending order"))
      return;
    value.slot_images.push_back(std::move(record));
  }
}

} // namespace

job_image difference(const job_image& before, const job_image& current) {
  job_image change = current;
  change.slot_images.clear();
  std::set_difference(current.slot_images.begin(), current.slot_images.end(), before.slot_images.begin(),
                      before.slot_images.end(), std::back_inserter(change.slot_images),
                      [](const slot_image& a, const slot_image& b) { return a.slot < b.slot; });
  for (auto old = before.slot_images.begin(); const auto& record : current.slot_images) {
    while (old != before.slot_images.end() && old->slot < record.slot)
      ++old;
    if (old != before.slot_images.end() && old->slot == record.slot && *old != record)
      change.slot_images.push_back(record);
  }
  std::sort(change.slot_images.begin(), change.slot_images.end(),
            [](const slot_image& a, const slot_image& b) { return a.slot < b.slot; });
  return change;
}

void apply(const job_image& change, job_image& to) {
  auto slot_images = std::move(to.slot_images);
  for (const auto& record : change.slot_images) {
    const auto place = std::lower_bound(slot_images.begin(), slot_images.end(), record.slot,
                                        [](const slot_image& a, std::int32_t slot) { return a.slot < slot; });
    if (place != slot_images.end() && place->slot == record.slot)
      *place = record;
    else
      slot_images.insert(place, record);
  }
  to = change;
  to.slot_images = std::move(slot_images);
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
    write_each(to.initSlots(count_of(value.slot_images)), value.slot_images, write_slot);
  });
}

expected<job_image> decode_job_image(std::span<const std::byte> bytes) {
  return wire_form::decode_bytes<job_image, wire::Job>(bytes, "image of a job", read_job);
}

} // namespace farandole
