// The operations that move a separate row between each two members: allgather (the same row to all), alltoall
// (another row to each) and reducescatter (the owner reduces the rows that it receives). Every member sends
// directly to every other member. Rows are cut into pieces and may differ in length.
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
  /// `run` must outlive the object.
  explicit row_exchange(const exchange_run& run) : run_(run) {}

  error allgather();
  error alltoall();
  error reducescatter();

private:
  using slot = message_staging::slot;

  /// One stream of all parts for each member, with `sizes[part * members + rank]` bytes of each part, in rank
  /// order, from the outputs or from the inputs.
  enum class side : std::uint8_t { input, output };
  std::vector<tensor_stream> by_member(side end, std::span<const std::size_t> sizes) const;
  /// Keeps three pieces in progress. The streams of one run may differ in length.
  using begin_piece = std::function<void(std::size_t number)>;
  using finish_piece = std::function<error(std::size_t number)>;
  error pipelined(std::size_t pieces, const begin_piece& begin, const finish_piece& finish);
  /// Copies a piece of this member's row to itself. `row`: its bytes; `sizes`: those of all rows in the outputs.
  void copy_own_row(std::size_t number, const tensor_stream& row, std::span<const std::size_t> sizes,
                    std::size_t piece_bytes) const;
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
