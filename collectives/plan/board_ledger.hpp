// Who gets a cell on the board. Cells are given out once and never again within a generation: a member that
// was stopped for a while may still read the cell of a round that is long over for the others, and there is
// no message by which it could be known not to. The next generation has another window, and a ledger of its
// own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "messages/signature.hpp"

namespace farandole {

struct board_options {
  bool on = false;                                 ///< the setting, and a window that all members share
  bool one_host = false;                           ///< all members can share memory
  std::size_t limit_bytes = std::size_t{64} << 10; ///< largest tensor
  std::size_t area_bytes = 0;                      ///< of each member
  std::size_t (*footprint)(std::size_t bytes) =
      nullptr; ///< what a tensor takes of the area (board::footprint)
};

class board_ledger {
public:
  explicit board_ledger(const board_options& options) : options_(options) {}

  /// The offset of a new cell for a tensor of this signature; empty when it must go by the leader.
  /// `uses`: how often it has gone by the leader already, so that a tensor that comes once pins nothing.
  std::optional<std::int64_t> grant(const signature& what, std::size_t bytes, std::uint64_t uses);

  std::size_t used_bytes() const { return used_; }

private:
  board_options options_;
  std::size_t used_ = 0;
};

} // namespace farandole
