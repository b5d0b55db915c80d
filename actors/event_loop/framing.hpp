// A stream has no message boundaries, so each message goes behind an eight-byte header: its length in words
// and a zero that later versions may use (both u32, little-endian). Reading bounds memory: a length above the
// limit is refused before a byte of it is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "messages/values/error.hpp"

namespace farandole {

inline constexpr std::size_t frame_header_bytes = 8;

/// Appends header and message; the message is whole words (a multiple of 8 bytes) and not empty.
void append_frame(std::vector<std::byte>& target, std::span<const std::byte> message);

/// Bytes in, whole messages out, in order. After an error it stays broken and hands out nothing.
class frame_reader {
public:
  explicit frame_reader(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  /// Takes what came in. `invalid_argument` as soon as a header cannot be right.
  error push(std::span<const std::byte> bytes);

  /// The next whole message, valid until the next call of push or next.
  std::optional<std::span<const std::byte>> next();

  /// Bytes kept that belong to no message handed out yet.
  std::size_t held_bytes() const { return buffer_.size() - begin_; }

private:
  error check_headers();

  std::size_t most_bytes_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;   ///< first byte not handed out
  std::size_t checked_ = 0; ///< start of the first frame whose header was not checked
  error broken_;
};

} // namespace farandole
