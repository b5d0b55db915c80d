// The operations that move a row of their own between each two members: allgather (the same to all), alltoall
// (another to each) and reducescatter (whose owner sums what it receives). Everybody sends directly to
// everybody; rows are cut into pieces and may differ in length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "collectives/transport/p2p/p2p_run.hpp"
#include "collectives/transport/tensor_stream.hpp"

namespace farandole {

class row_exchange {
public:
  /// The run outlives it.
  explicit row_exchange(const exchange_run& run) : run_(run) {}

  error allgather();
  error alltoall();
  error reducescatter();

private:
  using slot = message_staging::slot;

  /// One stream for each member, of all parts: `sizes[part * members + rank]` bytes of each, in rank order.
  /// Of the outputs, or of the inputs.
  enum class side : std::uint8_t { input, output };
  std::vector<tensor_stream> by_member(side end, std::span<const std::size_t> sizes) const;
  /// Keeps three pieces under way; the streams of one run need not be equally long.
  using begin_piece = std::function<void(std::size_t number)>;
  using finish_piece = std::function<error(std::size_t number)>;
  error pipelined(std::size_t pieces, const begin_piece& begin, const finish_piece& finish);
  void receive_rows(std::size_t number, std::span<const tensor_stream> rows, std::size_t piece_bytes);
  void send_row(std::size_t number, const tensor_stream& row, std::size_t piece_bytes);
  void send_segments(message_phase phase, std::size_t number, std::span<const tensor_stream> segments,
                     std::size_t piece_bytes);
  error finish_rows(std::size_t number, std::span<const tensor_stream> rows, std::size_t piece_bytes);
  void receive_segment(std::size_t number, std::size_t bytes);
  error reduce_segment(std::size_t number, const tensor_stream& own, const tensor_stream& result,
                       std::size_t piece_bytes);

  const exchange_run& run_;
};

} // namespace farandole
