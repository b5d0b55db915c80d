// Tensors of one grouped call become ready together. Who makes the call gives the group a number that is made
// from its names, so that every rank finds the same one without asking, and so that a name which comes in
// another company is noticed as a change.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collectives/fusion/ready_tensor.hpp"

namespace farandole {

/// A group that some member named for a tensor.
struct group_claim {
  std::uint32_t group = 0; ///< 0: none
  std::uint32_t size = 0;

  friend bool operator==(const group_claim&, const group_claim&) = default;
};

/// The number of the group that these names make, in any order; never 0.
std::uint32_t group_number(std::span<const std::string_view> names);

/// Holds what is ready back until the rest of its group is decided too (ready or failed).
class group_gate {
public:
  /// One member of `group` became ready. What may go now, itself included, is appended to `out`.
  void ready(std::uint32_t group, std::uint32_t size, ready_tensor&& tensor,
             std::vector<ready_tensor>& ready_tensors);
  /// One member of `group` will not come (it failed, or ranks do not agree on its group).
  void gone(std::uint32_t group, std::uint32_t size, std::vector<ready_tensor>& ready);
  /// The same of every group that some member named for it.
  void gone(std::span<const group_claim> claims, std::vector<ready_tensor>& ready);
  /// Ready tensors that wait for company.
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
