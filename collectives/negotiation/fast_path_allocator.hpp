// Who gets a cell on the fast path. Cells are given out once and never again within a generation: a member that
// was stopped for a while may still read the cell of a round that is long over for the others, and there is
// no message by which it could be known not to. The next generation has another window, and a ledger of its
// own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "messages/values/signature.hpp"

namespace farandole {

struct fast_path_options {
  bool on = false;                                 ///< the setting, and a window that all members share
  bool one_host = false;                           ///< all members can share memory
  std::size_t limit_bytes = std::size_t{64} << 10; ///< largest tensor that a cell holds whole
  std::size_t area_bytes = 0;                      ///< of each member
  /// Of a cell for a collective that callers run; 0: there is none for such tensors.
  std::size_t collective_bytes = 0;
  /// The most that the tensors of a group may have together: all of them are staged at once.
  std::size_t group_bytes = 0;
  std::size_t (*footprint)(std::size_t bytes) =
      nullptr; ///< what a cell of so many bytes takes of the area (board::footprint)
};

struct fast_path_grant {
  std::int64_t offset = 0;
  std::size_t bytes = 0; ///< that a member shows there

  friend bool operator==(const fast_path_grant&, const fast_path_grant&) = default;
};

class fast_path_allocator {
public:
  explicit fast_path_allocator(const fast_path_options& options) : options_(options) {}

  /// A new cell for a tensor of this signature; empty when it must go by the leader.
  /// `uses`: how often it has gone by the leader already, so that a tensor that comes once pins nothing.
  std::optional<fast_path_grant> grant(const signature& signature, std::size_t bytes, std::uint64_t uses);

  std::size_t used_bytes() const { return used_; }

private:
  std::optional<std::size_t> shown(const signature& signature, std::size_t bytes) const;

  fast_path_options options_;
  std::size_t used_ = 0;
};

} // namespace farandole
