// What one run of the local path works on, and how streams are cut into chunks. Seen by the files of the
// local path only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "collectives/paths/local/local.hpp"

namespace farandole {

/// Shares begin at cache lines: a line has one writer, and no element is split.
inline constexpr std::size_t share_alignment = 64;

/// Smallest chunk worth its two rounds.
inline constexpr std::size_t least_chunk_bytes = std::size_t{64} << 10;
/// `unit` is not zero.
constexpr std::size_t rounded_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

constexpr std::size_t chunks_of(std::size_t bytes, std::size_t chunk) {
  return (bytes + chunk - 1) / chunk;
}

struct chunk_range {
  std::size_t from;
  std::size_t bytes;
};

struct local_path::job {
  const work& bundle;
  const limits& until;
  const tensor_stream& stream; ///< of all parts; where each member has its own: of this member's
  std::uint64_t first;         ///< step of chunk 0
  std::size_t chunk_bytes;
  std::size_t chunks = 0;
  error problem{};

  chunk_range chunk(std::size_t index) const { return chunk_of(stream, index); }
  /// Empty past the stream's end.
  chunk_range chunk_of(const tensor_stream& which, std::size_t index) const {
    const std::size_t from = std::min(which.bytes(), index * chunk_bytes);
    return {from, std::min(chunk_bytes, which.bytes() - from)};
  }
};

} // namespace farandole
