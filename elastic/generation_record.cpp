#include "elastic/generation_record.hpp"

#include <algorithm>
#include <utility>

namespace farandole {

generation_record generation_record::restored(const job_image& image) {
  generation_record record;
  record.number_ = image.generation;
  record.running_ = image.running;
  record.slots_by_rank_ = image.slots_by_rank;
  record.changes_ = image.changes;
  record.removals_only_ = image.removals_only;
  record.lost_somebody_ = image.lost_somebody;
  record.state_generation_ = image.state_generation;
  return record;
}

void generation_record::store(job_image& image) const {
  image.generation = number_;
  image.running = running_;
  image.slots_by_rank = slots_by_rank_;
  image.changes = changes_;
  image.removals_only = removals_only_;
  image.lost_somebody = lost_somebody_;
  image.state_generation = state_generation_;
}

bool generation_record::has(std::int32_t slot) const {
  return std::find(slots_by_rank_.begin(), slots_by_rank_.end(), slot) != slots_by_rank_.end();
}

std::optional<std::int32_t> generation_record::slot_of_rank(std::int32_t rank) const {
  if (rank < 0 || rank >= static_cast<std::int32_t>(slots_by_rank_.size()))
    return std::nullopt;
  return slots_by_rank_[static_cast<std::size_t>(rank)];
}

bool generation_record::is_newest(std::int32_t slot, std::uint64_t state) const {
  if (state == 0 || number_ == 0)
    return state != 0;
  return has(slot) && (state == number_ || state == state_generation_);
}

void generation_record::change(bool removal) {
  ++changes_;
  removals_only_ = removals_only_ && removal;
}

void generation_record::start(std::vector<std::int32_t> slots_by_rank, std::uint64_t state) {
  ++number_;
  running_ = true;
  slots_by_rank_ = std::move(slots_by_rank);
  changes_ = 0;
  removals_only_ = true;
  lost_somebody_ = false;
  state_generation_ = state;
}

void generation_record::end_by_loss() {
  running_ = false;
  lost_somebody_ = true;
}

} // namespace farandole
