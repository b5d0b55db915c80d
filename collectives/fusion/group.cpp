#include "collectives/fusion/group.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace farandole {

std::uint32_t group_number(std::span<const std::string_view> names) {
  // FNV-1a of each name. The hashes are added, so the order of the names does not matter.
  std::uint64_t sum = names.size();
  for (auto name : names) {
    std::uint64_t hash = 14695981039346656037ull;
    for (unsigned char letter : name)
      hash = (hash ^ letter) * 1099511628211ull;
    sum += hash ^ (hash >> 29);
  }
  auto number = static_cast<std::uint32_t>(sum ^ (sum >> 32));
  return number == 0 ? 1 : number;
}

void group_gate::ready(std::uint32_t group, std::uint32_t size, ready_tensor&& tensor,
                       std::vector<ready_tensor>& ready_tensors) {
  groups_[group].held.push_back(std::move(tensor));
  ++held_;
  count(group, size, ready_tensors);
}

void group_gate::gone(std::uint32_t group, std::uint32_t size, std::vector<ready_tensor>& ready) {
  count(group, size, ready);
}

void group_gate::gone(std::span<const group_claim> claims, std::vector<ready_tensor>& ready) {
  for (const auto& claim : claims)
    if (claim.group != 0)
      gone(claim.group, claim.size, ready);
}

void group_gate::count(std::uint32_t group, std::uint32_t size, std::vector<ready_tensor>& ready) {
  auto found = groups_.try_emplace(group).first;
  if (++found->second.decided < size)
    return;
  auto& held = found->second.held;
  held_ -= held.size();
  std::move(held.begin(), held.end(), std::back_inserter(ready));
  groups_.erase(found);
}

} // namespace farandole
