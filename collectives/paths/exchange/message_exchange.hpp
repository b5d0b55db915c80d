// One run of one bundle over a connected messenger: which piece goes to whom, in what order, through which
// memory. Pieces are pipelined three deep: while piece k is on its way out, k−1 is reduced and k−2 comes
// back. Sender and receiver cut the same pieces from the same numbers, so nothing has to be said about sizes.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "collectives/paths/adasum.hpp"
#include "collectives/paths/exchange/messenger.hpp"
#include "collectives/paths/path.hpp"
#include "collectives/paths/tensor_stream.hpp"

namespace farandole {

/// Memory of the pieces that are under way; kept from run to run.
struct message_staging {
  struct slot {
    std::vector<std::byte> outgoing; ///< packed input
    std::vector<std::byte> incoming; ///< contributions of the others
    std::vector<std::byte> results;  ///< what will be unpacked
    message_ticket sends;
    message_ticket receives;
    message_ticket result_sends;
    message_ticket result_receives;
  };
  static constexpr std::size_t depth = 3;
  std::array<slot, depth> slots;
  adasum_scratch adasum;
  std::size_t adasum_message_bytes; ///< longest of one message

  slot& of(std::size_t piece) { return slots[piece % depth]; }

  /// At least so many bytes of a slot's memory.
  static std::byte* reserve(std::vector<std::byte>& memory, std::size_t bytes) {
    if (memory.size() < bytes)
      memory.resize(bytes);
    return memory.data();
  }
};

class message_exchange {
public:
  using probe = std::function<void(message_phase phase, std::size_t piece)>;

  /// `around` may be null.
  message_exchange(messenger& worker, message_staging& staging, const work& bundle, const limits& until,
                   const probe& watch, const piece_interludes* around);

  /// Everything sent and received when it returns without error; after an error the worker is gone, or must
  /// go.
  error run();
  /// Likewise, for `what` in place of the bundle's operation.
  error carry(const adasum_exchange& what);

private:
  using slot = message_staging::slot;
  class adasum_messages;

  /// A range of the row of elements: of a piece, or one member's segment of it.
  struct range {
    std::size_t from = 0;
    std::size_t bytes = 0;
  };

  error allreduce();
  error allreduce_small();
  error adaptive_sum();
  error allgather();
  error broadcast();
  error barrier();
  error alltoall();
  error reducescatter();

  range piece(std::size_t number) const;
  range segment(range whole, std::int32_t member) const;
  void begin_scatter(std::size_t number);
  error reduce_and_gather(std::size_t number);
  error finish_gather(std::size_t number);
  const std::byte* contribution(slot& in, range whole, range part);
  void reduce_into(std::byte* output, std::span<const std::byte* const> inputs, std::size_t bytes) const;

  /// One stream for each member, of all parts: `sizes[part * members + rank]` bytes of each, in rank order.
  /// Of the outputs, or of the inputs.
  enum class side : std::uint8_t { input, output };
  std::vector<tensor_stream> by_member(side which, std::span<const std::size_t> sizes) const;
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

  /// Gives bytes to one other member and takes as many as fit from it.
  error swap(message_phase phase, std::size_t number, std::int32_t peer, std::span<const std::byte> give,
             std::span<std::byte> take);

  std::int32_t next(std::int32_t step) const { return (rank_ + step) % members_; }
  void enter(message_phase phase, std::size_t piece);
  error before(std::size_t number) const { return around_ ? around_->before(number) : error{}; }
  error after(std::size_t number) const { return around_ ? around_->after(number) : error{}; }

  messenger& worker_;
  message_staging& staging_;
  const work& bundle_;
  const limits& until_;
  const probe& probe_;
  const std::int32_t rank_;
  const std::int32_t members_;
  const std::size_t element_;
  tensor_stream input_;
  tensor_stream output_;
  const piece_interludes* around_;
  std::size_t piece_bytes_;
};

} // namespace farandole
