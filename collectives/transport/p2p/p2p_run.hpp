// The state that all parts of one run of one bundle share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "collectives/transport/p2p/message_staging.hpp"
#include "collectives/transport/p2p/messenger.hpp"
#include "collectives/transport/path.hpp"

namespace farandole {

struct exchange_run {
  using probe = std::function<void(message_phase phase, std::size_t piece)>;

  messenger& transport;
  message_staging& staging;
  const work& bundle;
  const deadline_and_abort& deadline;
  const probe& watch;               ///< may be empty
  const piece_callbacks* callbacks; ///< may be null
  const std::int32_t rank = transport.rank();
  const std::int32_t members = transport.members();
  const std::size_t element = size_of(bundle.dtype); ///< bytes of one element

  std::int32_t next(std::int32_t step) const { return (rank + step) % members; }
  /// Marks the beginning of a phase of a piece, and processes received messages.
  void enter(message_phase phase, std::size_t piece) const;
  error before(std::size_t number) const { return callbacks ? callbacks->before(number) : error{}; }
  error after(std::size_t number) const { return callbacks ? callbacks->after(number) : error{}; }
  /// Reduces `bytes` of each member, in rank order, into `output`.
  void reduce_into(std::byte* output, std::span<const std::byte* const> inputs, std::size_t bytes) const;
};

} // namespace farandole
