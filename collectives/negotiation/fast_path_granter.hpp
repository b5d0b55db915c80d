// Which ids take the fast path: a tensor that has come again by way of the leader gets a cell on the fast path if
// the ledger has one for it. The granter knows every id that has a cell, because a member that joins takes
// all of them back.
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
      : group_bytes_(options.group_bytes), ledger_(options) {}

  /// Gives `tensor` a cell, and returns what members are to hear of it; empty when it goes on by way of the
  /// leader.
  std::optional<assignment> grant(cached_tensor& tensor);
  /// The same for all tensors of a group together: all get a cell, or none.
  std::vector<assignment> grant_group(std::span<cached_tensor* const> tensors);
  /// The id means nothing any more; it may have had no cell.
  void forget(std::uint32_t id);
  /// Takes all cells back; the ids, in the order in which they got theirs.
  std::vector<std::uint32_t> forget_all();

private:
  assignment seat(cached_tensor& tensor, const fast_path_grant& cell);

  std::size_t group_bytes_;
  fast_path_allocator ledger_;
  std::vector<std::uint32_t> granted_; ///< ids with a cell
};

} // namespace farandole
