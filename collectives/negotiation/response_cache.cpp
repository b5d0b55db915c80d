#include "collectives/negotiation/response_cache.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

#include "collectives/operation.hpp"

namespace farandole {

bool cached_tensor::matches(const request& asked, std::int32_t member) const {
  if (asked.absent || asked.group != group || asked.group_size != group_size ||
      asked.device != device_of(member))
    return false;
  if (first_dims.empty())
    return asked.signature == signature;
  auto as_first = asked.signature;
  if (as_first.shape.empty() || as_first.shape[0] != first_dims[static_cast<std::size_t>(member)])
    return false;
  as_first.shape[0] = signature.shape[0];
  return as_first == signature;
}

std::uint8_t cached_tensor::device_of(std::int32_t member) const {
  return devices.empty() ? std::uint8_t{0} : devices[static_cast<std::size_t>(member)];
}

request cached_tensor::request_of(std::int32_t member) const {
  request result{name, signature, group, group_size};
  result.device = device_of(member);
  if (!first_dims.empty())
    result.signature.shape[0] = first_dims[static_cast<std::size_t>(member)];
  return result;
}

cached_tensor* response_cache::insert(cached_tensor&& tensor, std::vector<cached_tensor>& evicted) {
  if (capacity_ == 0 || last_id_ == std::numeric_limits<std::uint32_t>::max())
    return nullptr;
  if (size_ - with_cell_ >= capacity_) {
    if (oldest_ == none || slots_[oldest_].touched > marked_)
      return nullptr;
    evicted.push_back(forget(slots_[oldest_].tensor.id));
  }
  std::uint32_t index;
  if (free_.empty()) {
    index = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  const std::uint32_t id = ++last_id_;
  if (pages_.size() <= id / page_ids)
    pages_.resize(id / page_ids + 1);
  auto& page = pages_[id / page_ids];
  if (!page) {
    page = std::make_unique<struct page>();
    page->slots.fill(none);
  }
  page->slots[id % page_ids] = index;
  ++page->live;
  ++size_;

  auto& slot = slots_[index];
  slot.tensor = std::move(tensor);
  slot.tensor.id = id;
  slot.tensor.as_ready.id = id;
  slot.pinned = slot.has_cell = false;
  link(index);
  return &slot.tensor;
}

cached_tensor response_cache::forget(std::uint32_t id) {
  auto& page = pages_[id / page_ids];
  const std::uint32_t index = std::exchange(page->slots[id % page_ids], none);
  assert(index != none);
  if (--page->live == 0)
    page.reset();
  if (!slots_[index].pinned)
    unlink(index);
  with_cell_ -= slots_[index].has_cell;
  free_.push_back(index);
  --size_;
  return std::exchange(slots_[index].tensor, {});
}

void response_cache::touch(const cached_tensor& tensor) {
  const std::uint32_t index = pages_[tensor.id / page_ids]->slots[tensor.id % page_ids];
  if (slots_[index].pinned)
    return;
  unlink(index);
  link(index);
}

void response_cache::keep_for_fast_path(const cached_tensor& tensor) {
  pin(tensor);
  auto& slot = slots_[pages_[tensor.id / page_ids]->slots[tensor.id % page_ids]];
  with_cell_ += !std::exchange(slot.has_cell, true);
}

void response_cache::pin(const cached_tensor& tensor) {
  const std::uint32_t index = pages_[tensor.id / page_ids]->slots[tensor.id % page_ids];
  if (!std::exchange(slots_[index].pinned, true))
    unlink(index);
}

void response_cache::unpin(const cached_tensor& tensor) {
  const std::uint32_t index = pages_[tensor.id / page_ids]->slots[tensor.id % page_ids];
  if (!slots_[index].has_cell && std::exchange(slots_[index].pinned, false))
    link(index);
}

void response_cache::link(std::uint32_t index) {
  auto& slot = slots_[index];
  slot.touched = ++clock_;
  slot.newer = none;
  slot.older = newest_;
  (newest_ == none ? oldest_ : slots_[newest_].newer) = index;
  newest_ = index;
}

void response_cache::unlink(std::uint32_t index) {
  auto& slot = slots_[index];
  (slot.newer == none ? newest_ : slots_[slot.newer].older) = slot.older;
  (slot.older == none ? oldest_ : slots_[slot.older].newer) = slot.newer;
}

} // namespace farandole
