#include "collectives/plan/board_granter.hpp"

#include <utility>

namespace farandole {

// Tensors of a group become ready together, and only the leader sees when.
std::optional<assignment> board_granter::grant(cached_tensor& tensor) {
  if (tensor.board_refused || tensor.group != 0)
    return std::nullopt;
  const auto cell = ledger_.grant(tensor.signature, tensor.as_ready.bytes, tensor.uses);
  if (!cell) {
    // What is refused once it has come again is refused for good: limits stay and the area only fills up.
    tensor.board_refused = true;
    return std::nullopt;
  }
  tensor.cell = cell->offset;
  granted_.push_back(tensor.id);
  return assignment{tensor.id, tensor.name, tensor.cell, static_cast<std::uint32_t>(cell->bytes),
                    tensor.signature};
}

void board_granter::forget(std::uint32_t id) {
  std::erase(granted_, id);
}

std::vector<std::uint32_t> board_granter::forget_all() {
  return std::exchange(granted_, {});
}

} // namespace farandole
