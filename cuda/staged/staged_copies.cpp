#include "cuda/staged/staged_copies.hpp"

namespace farandole {

namespace {

bool follows(const staged_piece& piece, const staged_piece& other) {
  return piece.device == other.device + other.bytes && piece.host == other.host + other.bytes;
}

CUresult copy_piece(const driver_functions& driver, CUstream stream, const staged_piece& piece,
                    copy_direction direction) {
  if (piece.bytes == 0)
    return CUDA_SUCCESS;
  const auto device = reinterpret_cast<CUdeviceptr>(piece.device);
  const auto host = reinterpret_cast<CUdeviceptr>(piece.host);
  return direction == copy_direction::to_host ? driver.copy(host, device, piece.bytes, stream)
                                              : driver.copy(device, host, piece.bytes, stream);
}

} // namespace

/// Pieces that are adjacent on both sides are copied together. The driver refuses that for pieces of two allocations.
error copy_pieces(const device_stream& owner, CUstream handle, std::span<const staged_piece> pieces,
                  copy_direction direction) {
  const auto& driver = owner.owner().driver();
  while (!pieces.empty()) {
    auto merged = pieces.front();
    std::size_t count = 1;
    for (; count < pieces.size() && follows(pieces[count], merged); ++count)
      merged.bytes += pieces[count].bytes;
    auto result = copy_piece(driver, handle, merged, direction);
    if (result == CUDA_ERROR_INVALID_VALUE && count > 1) {
      count = 1;
      result = copy_piece(driver, handle, pieces.front(), direction);
    }
    if (auto problem = owner.result_of("cuMemcpyAsync", result))
      return problem;
    pieces = pieces.subspan(count);
  }
  return {};
}

} // namespace farandole
