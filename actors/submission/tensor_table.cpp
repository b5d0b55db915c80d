#include "actors/submission/tensor_table.hpp"

#include <algorithm>
#include <utility>

namespace farandole {

known_tensor* tensor_table::find(std::string_view name) {
  const auto position = by_name_.find(name);
  return position == by_name_.end() ? nullptr : &position->second;
}

known_tensor* tensor_table::find(std::uint32_t id) {
  const auto named = names_.find(id);
  return named == names_.end() ? nullptr : find(named->second);
}

known_tensor& tensor_table::at(std::string_view name) {
  auto* entry = find(name);
  return entry ? *entry : by_name_.emplace(std::string(name), known_tensor{}).first->second;
}

void tensor_table::apply(assigned_id change) {
  if (change.forgotten)
    return forget(change.id);
  auto& entry = at(change.name);
  if (entry.id != change.id) {
    names_.erase(entry.id);
    entry.id = change.id;
    entry.next_round = 0;
    names_[entry.id] = std::move(change.name);
  }
  entry.signature = std::move(change.signature);
  entry.group = change.group;
  entry.group_size = change.group_size;
  entry.device = change.device;
  entry.slot = std::move(change.slot);
}

void tensor_table::forget(known_tensor& entry) {
  names_.erase(entry.id);
  entry.id = 0;
  entry.slot.reset();
}

void tensor_table::forget(std::uint32_t id) {
  if (auto* entry = find(id); entry && entry->id == id)
    forget(*entry);
  else
    names_.erase(id);
}

void tensor_table::sweep() {
  std::erase_if(by_name_, [](const auto& item) {
    const auto& entry = item.second;
    return entry.id == 0 && (!entry.last || entry.last->settled());
  });
  sweep_at_ = std::max(least_swept, 2 * by_name_.size());
}

void tensor_table::sweep_if_grown() {
  if (by_name_.size() >= sweep_at_)
    sweep();
}

} // namespace farandole
