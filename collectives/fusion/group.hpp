// Groups: the tensors of one grouped call become ready together. The caller computes the number of the group
// from the names of its tensors. So every rank computes the same number without communication, and a name that
// moves to another group is detected as a change.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collectives/fusion/ready_tensor.hpp"

namespace farandole {

/// The group that a member named for a tensor.
struct group_claim {
  std::uint32_t group = 0; ///< 0: none
  std::uint32_t size = 0;

  friend bool operator==(const group_claim&, const group_claim&) = default;
};

/// The number of the group that consists of these names. Independent of their order; never 0.
std::uint32_t group_number(std::span<const std::string_view> names);

/// Holds ready tensors back until every tensor of their group is decided: ready or failed.
class group_gate {
public:
  /// A tensor of `group`, which has `size` tensors, became ready. If it was the last one to be decided, the
  /// ready tensors of the group, including this one, are appended to `ready_tensors`.
  void ready(std::uint32_t group, std::uint32_t size, ready_tensor&& tensor,
             std::vector<ready_tensor>& ready_tensors);
  /// A tensor of `group` will not become ready: it failed, or the ranks disagree on its group. Appends to
  /// `ready` likewise.
  void gone(std::uint32_t group, std::uint32_t size, std::vector<ready_tensor>& ready);
  /// The same for every group that a member named for the tensor.
  void gone(std::span<const group_claim> claims, std::vector<ready_tensor>& ready);
  /// Number of ready tensors that are held back.
  std::size_t held() const { return held_; }

private:
  struct waiting {
    std::uint32_t decided = 0;
    std::vector<ready_tensor> held;
  };
  void count(std::uint32_t group, std::uint32_t size, std::vector<ready_tensor>& ready);

  std::unordered_map<std::uint32_t, waiting> groups_;
  std::size_t held_ = 0;
};

} // namespace farandole
