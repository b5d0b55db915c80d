// Allocates cells on the fast path. A cell is never reused within a generation: a member that was suspended may
// still read the cell of a round that ended long ago for the others, and no message tells when it has stopped
// reading. The next generation has a new fast-path area and a new allocator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "messages/values/signature.hpp"

namespace farandole {

struct fast_path_options {
  bool on = false;                                 ///< enabled by the settings
  bool one_host = false;                           ///< all members can share memory
  std::size_t limit_bytes = std::size_t{64} << 10; ///< largest tensor that is stored completely in a cell
  std::size_t area_bytes = 0;                      ///< size of each member's fast-path area
  /// Size of a cell for a collective that callers run; 0: such tensors get no cell.
  std::size_t collective_bytes = 0;
  /// Maximum total size of the tensors of a group: all of them are staged at once.
  std::size_t group_bytes = 0;
  /// The space that a cell of `bytes` takes in the area (shm_fast_path::footprint).
  std::size_t (*footprint)(std::size_t bytes) = nullptr;
};

struct fast_path_grant {
  std::int64_t offset = 0;
  std::size_t bytes = 0; ///< that a member publishes there

  friend bool operator==(const fast_path_grant&, const fast_path_grant&) = default;
};

class fast_path_allocator {
public:
  explicit fast_path_allocator(const fast_path_options& options) : options_(options) {}

  /// Allocates a cell for a tensor of this signature. Empty if the tensor must be negotiated by the leader.
  /// `uses`: how often it has been negotiated already, so that a tensor that is used only once takes no cell.
  std::optional<fast_path_grant> grant(const signature& signature, std::size_t bytes, std::uint64_t uses);

  std::size_t used_bytes() const { return used_; }

private:
  std::optional<std::size_t> shown(const signature& signature, std::size_t bytes) const;

  fast_path_options options_;
  std::size_t used_ = 0;
};

} // namespace farandole
