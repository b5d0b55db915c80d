#include "collectives/negotiation/fast_path_granter.hpp"

#include <utility>

#include "collectives/operation.hpp"

namespace farandole {

// The tensors of a group get their cells together, in grant_group().
std::optional<assignment> fast_path_granter::grant(cached_tensor& tensor) {
  if (tensor.fast_path_refused || tensor.group != 0)
    return std::nullopt;
  const auto cell = allocator_.grant(tensor.signature, tensor.as_ready.bytes, tensor.uses);
  if (!cell) {
    // The refusal is permanent: the tensor has been used repeatedly, the limits do not change, and the area only
    // fills up.
    tensor.fast_path_refused = true;
    return std::nullopt;
  }
  return assign_cell(tensor, *cell);
}

std::vector<assignment> fast_path_granter::grant_group(std::span<cached_tensor* const> tensors) {
  auto allocator = allocator_;
  std::vector<fast_path_grant> cells;
  std::size_t bytes = 0;
  for (const auto* tensor : tensors) {
    const auto all = bytes + tensor->as_ready.bytes;
    // Rows whose numbers differ between members are staged in memory for the largest tensors, not in a group.
    const bool may = !tensor->fast_path_refused && all >= bytes && all <= group_bytes_ &&
                     row_of(tensor->signature.operation).rows == row_use::whole;
    const auto cell =
        may ? allocator.grant(tensor->signature, tensor->as_ready.bytes, tensor->uses) : std::nullopt;
    if (!cell)
      break;
    bytes = all;
    cells.push_back(*cell);
  }
  std::vector<assignment> assignments;
  if (cells.size() == tensors.size()) {
    allocator_ = allocator;
    for (std::size_t i = 0; i < tensors.size(); ++i)
      assignments.push_back(assign_cell(*tensors[i], cells[i]));
  } else {
    for (auto* tensor : tensors)
      tensor->fast_path_refused = true;
  }
  return assignments;
}

assignment fast_path_granter::assign_cell(cached_tensor& tensor, const fast_path_grant& cell) {
  tensor.cell = cell.offset;
  granted_.push_back(tensor.id);
  return {tensor.id, tensor.name, tensor.cell, static_cast<std::uint32_t>(cell.bytes), tensor.signature};
}

void fast_path_granter::forget(std::uint32_t id) {
  std::erase(granted_, id);
}

std::vector<std::uint32_t> fast_path_granter::forget_all() {
  return std::exchange(granted_, {});
}

} // namespace farandole
