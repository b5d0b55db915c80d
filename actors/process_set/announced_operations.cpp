#include "actors/process_set/announced_operations.hpp"

#include <algorithm>
#include <utility>

namespace farandole {

namespace {

template <class Table>
operation_state_ptr removed(Table& table, typename Table::iterator position) {
  if (position == table.end())
    return {};
  operation_state_ptr found = std::move(position->second);
  table.erase(position);
  return found;
}

} // namespace

void announced_operations::add(operation_state_ptr operation) {
  if (operation->id == 0)
    return add_by_name(std::move(operation));
  const auto id = operation->id;
  by_id_.insert_or_assign(id, std::move(operation));
}

void announced_operations::add_by_name(operation_state_ptr operation) {
  // The name outlives the move: the operation owns it, and the table the operation.
  const auto& name = operation->name;
  by_name_.insert_or_assign(name, std::move(operation));
}

const operation_state* announced_operations::assign(std::uint32_t id, const std::string& name) {
  if (auto named = take(name))
    return by_id_.insert_or_assign(id, std::move(named)).first->second.get();
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second.get();
}

operation_state_ptr announced_operations::take(std::uint32_t id) {
  return removed(by_id_, by_id_.find(id));
}

operation_state_ptr announced_operations::take(const std::string& name) {
  return removed(by_name_, by_name_.find(name));
}

operation_state_ptr announced_operations::take_under_any_key(const std::string& name) {
  if (auto named = take(name))
    return named;
  // This is rare, so a linear search is good enough.
  return removed(by_id_, std::find_if(by_id_.begin(), by_id_.end(),
                                      [&name](const auto& item) { return item.second->name == name; }));
}

operation_state_ptr announced_operations::take_join() {
  return removed(by_name_, std::find_if(by_name_.begin(), by_name_.end(), [](const auto& item) {
                   return item.second->signature.operation == operation::join;
                 }));
}

operation_state_ptr announced_operations::claim(std::uint32_t id, const std::string& name) {
  auto found = id != 0 ? take(id) : take(name);
  return found && found->advance(phase::queued, phase::claimed) ? found : operation_state_ptr{};
}

void announced_operations::settle_all(const error& reason) {
  for (auto& [id, operation] : std::exchange(by_id_, {}))
    operation->claim_and_settle(phase::queued, reason);
  for (auto& [name, operation] : std::exchange(by_name_, {}))
    operation->claim_and_settle(phase::queued, reason);
}

} // namespace farandole
