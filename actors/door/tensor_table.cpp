#include "actors/door/tensor_table.hpp"

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
  auto* known = find(name);
  return known ? *known : by_name_.emplace(std::string(name), known_tensor{}).first->second;
}

void tensor_table::apply(assigned_id change) {
  if (change.forgotten)
    return forget(change.id);
  auto& known = at(change.name);
  if (known.id != change.id) {
    names_.erase(known.id);
    known.id = change.id;
    known.next_round = 0;
    names_[known.id] = std::move(change.name);
  }
  known.signature = std::move(change.signature);
  known.group = change.group;
  known.group_size = change.group_size;
  known.seat = std::move(change.seat);
}

void tensor_table::forget(known_tensor& known) {
  names_.erase(known.id);
  known.id = 0;
  known.seat.reset();
}

void tensor_table::forget(std::uint32_t id) {
  if (auto* known = find(id); known && known->id == id)
    forget(*known);
  else
    names_.erase(id);
}

void tensor_table::sweep() {
  std::erase_if(by_name_, [](const auto& item) {
    const auto& known = item.second;
    return known.id == 0 && (!known.last || known.last->settled());
  });
  sweep_at_ = std::max(least_swept, 2 * by_name_.size());
}

void tensor_table::sweep_if_grown() {
  if (by_name_.size() >= sweep_at_)
    sweep();
}

} // namespace farandole
