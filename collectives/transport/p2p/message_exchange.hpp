// One run of one bundle over a connected messenger: which piece goes to whom, in what order, through which
// memory. Pieces are pipelined three deep: while piece k is on its way out, k−1 is reduced and k−2 comes
// back. Sender and receiver cut the same pieces from the same numbers, so nothing has to be said about sizes.
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

  /// `around` may be null.
  message_exchange(messenger& worker, message_staging& staging, const work& bundle,
                   const deadline_and_abort& deadline, const probe& watch, const piece_interludes* around);

  /// Everything sent and received when it returns without error; after an error the worker is gone, or must
  /// go.
  error run();
  /// Likewise, for `what` in place of the bundle's operation.
  error carry(const adasum_exchange& value);

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
  error broadcast();
  error barrier();

  range piece(std::size_t number) const;
  range segment(range whole, std::int32_t member) const;
  void begin_scatter(std::size_t number);
  error reduce_and_gather(std::size_t number);
  error finish_gather(std::size_t number);
  const std::byte* contribution(slot& in, range whole, range part);

  /// Gives bytes to one other member and takes as many as fit from it.
  error swap(message_phase phase, std::size_t number, std::int32_t peer, std::span<const std::byte> give,
             std::span<std::byte> take);

  const exchange_run run_;
  tensor_stream input_;
  tensor_stream output_;
  const std::size_t piece_bytes_;
};

} // namespace farandole
