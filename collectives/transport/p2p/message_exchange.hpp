// One run of one bundle over a connected messenger: which piece goes to which member, in which order, and
// through which memory. Pieces are pipelined three deep: while piece k is sent, piece k−1 is reduced and the
// result of piece k−2 is received. Sender and receiver compute the same pieces from the same numbers, so no
// sizes are sent.
#pragma once

#include <cstddef>
#include <span>

#include "collectives/transport/adasum.hpp"
#include "collectives/transport/p2p/p2p_run.hpp"
#include "collectives/transport/path.hpp"
#include "collectives/transport/tensor_stream.hpp"

namespace farandole {

class message_exchange {
public:
  using probe = exchange_run::probe;

  /// `callbacks` may be null.
  message_exchange(messenger& transport, message_staging& staging, const work& bundle,
                   const deadline_and_abort& deadline, const probe& watch, const piece_callbacks* callbacks);

  /// Runs the bundle's operation. When it returns without error, all messages are sent and received. After an
  /// error the messenger has closed, or must be closed.
  error run();
  /// Like run(), but runs `value` instead of the bundle's operation.
  error carry(const adasum_exchange& value);

private:
  using slot = message_staging::slot;
  class adasum_messages;

  /// A range of the bundle's stream: a piece, or one member's segment of it.
  struct range {
    std::size_t from = 0;
    std::size_t bytes = 0;
  };

  error allreduce();
  error allreduce_small();
  error adaptive_sum();
  error broadcast();
  error barrier();

  range piece(std::size_t number) const;
  range segment(range whole, std::int32_t member) const;
  void begin_scatter(std::size_t number);
  error reduce_and_gather(std::size_t number);
  error finish_gather(std::size_t number);
  const std::byte* contribution(slot& in, range whole, range part);
  void copy_own(range whole) const;

  /// Sends `give` to one other member, and receives from it as many bytes as `take` holds.
  error swap(message_phase phase, std::size_t number, std::int32_t peer, std::span<const std::byte> give,
             std::span<std::byte> take);

  const exchange_run run_;
  tensor_stream input_;
  tensor_stream output_;
  const std::size_t piece_bytes_;
};

} // namespace farandole
