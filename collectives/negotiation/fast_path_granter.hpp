// Decides which ids use the fast path: a tensor that the leader has negotiated repeatedly gets a cell if the
// allocator has room for it. The granter knows every id that has a cell, because all cells are taken back when a
// member joins.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collectives/negotiation/fast_path_allocator.hpp"
#include "collectives/negotiation/response_cache.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

class fast_path_granter {
public:
  explicit fast_path_granter(const fast_path_options& options)
      : group_bytes_(options.group_bytes), allocator_(options) {}

  /// Gives `tensor` a cell and returns the assignment to send to the members. Empty if the leader continues to
  /// negotiate the tensor.
  std::optional<assignment> grant(cached_tensor& tensor);
  /// The same for all tensors of a group: either all of them get a cell, or none.
  std::vector<assignment> grant_group(std::span<cached_tensor* const> tensors);
  /// The id was forgotten. It need not have had a cell.
  void forget(std::uint32_t id);
  /// Takes all cells back. Returns their ids in the order in which the cells were granted.
  std::vector<std::uint32_t> forget_all();

private:
  assignment assign_cell(cached_tensor& tensor, const fast_path_grant& cell);

  std::size_t group_bytes_;
  fast_path_allocator allocator_;
  std::vector<std::uint32_t> granted_; ///< ids with a cell
};

} // namespace farandole
