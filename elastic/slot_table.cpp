#include "elastic/slot_table.hpp"

#include <algorithm>

namespace farandole {

namespace {

slot_record record_from(const slot_image& image) {
  slot_record record;
  record.in_generation = record.notice_uncertain = image.in_generation;
  record.awaited = image.awaited;
  record.retired = image.retired;
  record.ended = image.ended;
  record.end_reason = image.end_reason;
  record.last_rank = image.last_rank;
  record.announced.slot = image.slot;
  record.announced.host = image.host;
  record.announced.host_name = image.host_name;
  record.announced.address = image.address;
  record.announced.process = image.process;
  return record;
}

slot_image image_of(std::int32_t slot, const slot_record& record, bool running) {
  slot_image image;
  image.slot = slot;
  // The process said hello again before its farewell arrived, so it may have left or lost another member.
  // A restarted rendezvous could not learn which, so it must treat the slot as a member that has not
  // reconnected.
  image.in_generation = record.in_generation || (running && record.earlier);
  image.awaited = record.awaited;
  image.retired = record.retired;
  image.ended = record.ended;
  image.end_reason = record.end_reason;
  image.last_rank = record.last_rank;
  if (!image.in_generation)
    return image;
  image.host = record.announced.host;
  image.host_name = record.announced.host_name;
  image.address = record.announced.address;
  image.process = record.announced.process;
  return image;
}

} // namespace

bool slot_table::expect(std::int32_t slot, const std::string& host) {
  const auto [position, is_new] = slots_.try_emplace(slot);
  if (!host.empty())
    position->second.host = host;
  return is_new;
}

const slot_record* slot_table::find(std::int32_t slot) const {
  const auto found = slots_.find(slot);
  return found == slots_.end() ? nullptr : &found->second;
}

slot_record* slot_table::find(std::int32_t slot) {
  const auto found = slots_.find(slot);
  return found == slots_.end() ? nullptr : &found->second;
}

// ---- by link ---------------------------------------------------------------------------------------

std::optional<std::int32_t> slot_table::slot_of(link_id from) const {
  for (const auto& [slot, record] : slots_)
    if (record.link == from)
      return slot;
  return std::nullopt;
}

std::optional<std::int32_t> slot_table::reporter_of(link_id from) const {
  for (const auto& [slot, record] : slots_)
    if (record.link == from || record.earlier == from)
      return slot;
  return std::nullopt;
}

std::optional<link_id> slot_table::link_of_same_process(const hello& request) const {
  const auto* record = find(request.slot);
  if (!record || request.process == 0)
    return std::nullopt;
  return record->in_generation && record->is_of(request.host, request.process) ? record->link : std::nullopt;
}

bool slot_table::some_present() const {
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const auto& entry) { return entry.second.is_present(); });
}

std::map<std::int32_t, link_id> slot_table::present() const {
  std::map<std::int32_t, link_id> found;
  for (const auto& [slot, record] : slots_)
    if (record.is_present())
      found.emplace(slot, *record.link);
  return found;
}

bool slot_table::all_left() const {
  return std::none_of(slots_.begin(), slots_.end(),
                      [](const auto& entry) { return entry.second.in_generation; });
}

// ---- changes of a whole record -----------------------------------------------------------------------

void slot_table::end_process(std::int32_t slot, const std::string& reason) {
  auto& record = slots_.at(slot);
  record.ended = true;
  if (!first_ended_)
    first_ended_ = slot; // later ends may be consequences of this one
  record.end_reason = reason;
  record.awaited = false;
  record.link.reset();
}

std::vector<std::int32_t> slot_table::give_up_missing(bool in_generation_only) {
  std::vector<std::int32_t> given_up;
  for (auto& [slot, record] : slots_)
    if (!record.link && (record.in_generation || !in_generation_only)) {
      record.awaited = false;
      given_up.push_back(slot);
    }
  return given_up;
}

void slot_table::start_generation(const std::vector<std::int32_t>& slots_by_rank, bool elastic) {
  for (auto& [slot, record] : slots_) {
    record.last_rank = -1;
    record.earlier.reset();
    record.in_generation = false;
    record.awaited = !elastic && !record.ended;
  }
  std::int32_t rank = 0;
  for (const auto slot : slots_by_rank) {
    auto& record = slots_.at(slot);
    record.in_generation = record.awaited = true;
    record.last_rank = rank++;
  }
}

// ---- images ----------------------------------------------------------------------------------------

void slot_table::restore(const std::vector<slot_image>& images) {
  for (const auto& image : images) {
    slots_[image.slot] = record_from(image);
    if (image.ended && !first_ended_)
      first_ended_ = image.slot;
  }
}

std::vector<slot_image> slot_table::image(bool running) const {
  std::vector<slot_image> images;
  images.reserve(slots_.size());
  for (const auto& [slot, record] : slots_)
    images.push_back(image_of(slot, record, running));
  return images;
}

} // namespace farandole
