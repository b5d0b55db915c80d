#include "collectives/relay/relay_tree.hpp"

#include <algorithm>
#include <cassert>
#include <unordered_map>

namespace farandole {

namespace {

// The ranks of each host, in ascending order. The hosts are in the order of their first ranks.
std::vector<std::vector<std::int32_t>> by_host(std::span<const std::string_view> hosts) {
  std::unordered_map<std::string_view, std::size_t> index_of_host;
  std::vector<std::vector<std::int32_t>> result;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto [found, fresh] = index_of_host.emplace(hosts[rank], result.size());
    if (fresh)
      result.emplace_back();
    result[found->second].push_back(static_cast<std::int32_t>(rank));
  }
  return result;
}

} // namespace

relay_tree::relay_tree(std::int32_t members) : parent_(at(members), 0) {
  assert(members > 0);
  parent_[0] = -1;
  number();
}

relay_tree::relay_tree(std::span<const std::string_view> hosts, const relay_options& options)
    : relay_tree(static_cast<std::int32_t>(hosts.size())) {
  const auto grouped = by_host(hosts);
  if (grouped.size() < 2 || options.least_members == 0 || hosts.size() < options.least_members)
    return;
  relays_ = true;
  hang(grouped, -1, std::max<std::size_t>(options.fan_in, 1));
  number();
}

// Builds the subtree of these hosts. The first rank of the first host becomes its root.
// - The other ranks of that host become its children. On the leader's host, they become children of the second
//   rank instead, so that the leader has one child on its host and not many.
// - The other hosts are split into at most `fan_in` parts of about equal size, each below the first rank of the
//   part. A part consists of consecutive hosts, so a subtree is nearly always one run of ranks.
void relay_tree::hang(std::span<const std::vector<std::int32_t>> hosts, std::int32_t above,
                      std::size_t fan_in) {
  const auto& own = hosts.front();
  const auto relay = own.front();
  parent_[at(relay)] = above;
  for (std::size_t i = 1; i < own.size(); ++i)
    parent_[at(own[i])] = above < 0 && i > 1 ? own[1] : relay;
  auto rest = hosts.subspan(1);
  for (auto parts = std::min(fan_in, rest.size()); parts > 0; --parts) {
    const auto size = (rest.size() + parts - 1) / parts;
    hang(rest.first(size), relay, fan_in);
    rest = rest.subspan(size);
  }
}

// Sorts the children of every rank, and assigns every subtree its range of `order_`.
void relay_tree::number() {
  const auto count = parent_.size();
  first_child_.assign(count + 1, 0);
  for (auto parent : parent_)
    if (parent >= 0)
      ++first_child_[at(parent) + 1];
  for (std::size_t rank = 0; rank < count; ++rank)
    first_child_[rank + 1] += first_child_[rank];
  children_.resize(count - 1);
  auto next = first_child_;
  for (std::size_t rank = 1; rank < count; ++rank)
    children_[next[at(parent_[rank])]++] = static_cast<std::int32_t>(rank);

  order_.clear();
  subtree_begin_.assign(count, 0);
  subtree_end_.assign(count, 0);
  std::vector<std::int32_t> waiting{0};
  while (!waiting.empty()) {
    const auto rank = waiting.back();
    waiting.pop_back();
    subtree_begin_[at(rank)] = order_.size();
    order_.push_back(rank);
    const auto below = children(rank);
    waiting.insert(waiting.end(), below.rbegin(), below.rend());
  }
  assert(order_.size() == count);
  for (auto rank = order_.rbegin(); rank != order_.rend(); ++rank) {
    const auto below = children(*rank);
    subtree_end_[at(*rank)] = below.empty() ? subtree_begin_[at(*rank)] + 1 : subtree_end_[at(below.back())];
  }
}

std::span<const std::int32_t> relay_tree::children(std::int32_t rank) const {
  return std::span(children_).subspan(first_child_[at(rank)],
                                      first_child_[at(rank) + 1] - first_child_[at(rank)]);
}

std::vector<std::int32_t> relay_tree::subtree(std::int32_t rank) const {
  std::vector<std::int32_t> ranks(order_.begin() + static_cast<std::ptrdiff_t>(subtree_begin_[at(rank)]),
                                  order_.begin() + static_cast<std::ptrdiff_t>(subtree_end_[at(rank)]));
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

bool relay_tree::below(std::int32_t top, std::int32_t rank) const {
  if (rank < 0 || rank >= members())
    return false;
  return subtree_begin_[at(top)] <= subtree_begin_[at(rank)] &&
         subtree_begin_[at(rank)] < subtree_end_[at(top)];
}

std::int32_t relay_tree::branch(std::int32_t top, std::int32_t rank) const {
  if (rank == top || !below(top, rank))
    return -1;
  while (parent_[at(rank)] != top)
    rank = parent_[at(rank)];
  return rank;
}

} // namespace farandole
