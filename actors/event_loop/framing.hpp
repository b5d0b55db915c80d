// Framing of messages on a byte stream. Each message follows an eight-byte header of two little-endian u32 values:
// the length of the message in words of eight bytes, and a reserved value, which must be zero. The reader bounds its
// memory: it refuses a length above the limit before it stores any byte of the message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "messages/values/error.hpp"

namespace farandole {

inline constexpr std::size_t frame_header_bytes = 8;

/// Appends header and message to `target`. The message must not be empty, and its size must be a multiple of 8 bytes.
void append_frame(std::vector<std::byte>& target, std::span<const std::byte> message);

/// Splits a byte stream into messages, in order. After an error it stays broken and returns no more messages.
class frame_reader {
public:
  explicit frame_reader(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  /// Appends bytes that were received. Returns `invalid_argument` as soon as a header is invalid.
  error push(std::span<const std::byte> bytes);

  /// Returns the next complete message. The reader owns its memory; it stays valid until the next call of push() or
  /// next().
  std::optional<std::span<const std::byte>> next();

  /// Number of buffered bytes that belong to messages that next() has not returned yet.
  std::size_t held_bytes() const { return buffer_.size() - begin_; }

private:
  error check_headers();

  std::size_t most_bytes_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;   ///< offset of the first byte that next() has not returned
  std::size_t checked_ = 0; ///< offset of the first frame whose header was not checked yet
  error broken_;
};

} // namespace farandole
