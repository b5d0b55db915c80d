#include "actors/event_loop/framing.hpp"

#include <cassert>
#include <cstring>

namespace farandole {

namespace {

std::uint32_t read_u32(const std::byte* at) {
  return std::to_integer<std::uint32_t>(at[0]) | std::to_integer<std::uint32_t>(at[1]) << 8 |
         std::to_integer<std::uint32_t>(at[2]) << 16 | std::to_integer<std::uint32_t>(at[3]) << 24;
}

void write_u32(std::byte* at, std::uint32_t value) {
  for (int i = 0; i < 4; ++i)
    at[i] = static_cast<std::byte>(value >> (8 * i));
}

std::size_t message_bytes(const std::byte* header) {
  return std::size_t{read_u32(header)} * 8;
}

} // namespace

void append_frame(std::vector<std::byte>& target, std::span<const std::byte> message) {
  assert(!message.empty() && message.size() % 8 == 0 && message.size() / 8 <= UINT32_MAX);
  std::byte header[frame_header_bytes] = {};
  write_u32(header, static_cast<std::uint32_t>(message.size() / 8));
  target.insert(target.end(), header, header + frame_header_bytes);
  target.insert(target.end(), message.begin(), message.end());
}

error frame_reader::push(std::span<const std::byte> bytes) {
  if (broken_)
    return broken_;
  // Drop the messages that next() has returned, so that the buffer holds at most one incomplete message plus the
  // bytes of the latest read.
  if (begin_ > 0) {
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(begin_));
    checked_ -= begin_;
    begin_ = 0;
  }
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  return check_headers();
}

/// Checks every complete header in the buffer before next() returns any message, so that bytes behind an invalid
/// header are never taken for a message.
error frame_reader::check_headers() {
  while (buffer_.size() >= checked_ + frame_header_bytes) {
    const auto* header = buffer_.data() + checked_;
    auto size = message_bytes(header);
    if (size == 0 || read_u32(header + 4) != 0)
      broken_ = {error_kind::invalid_argument, "garbage where a message should begin"};
    else if (size > most_bytes_)
      broken_ = {error_kind::invalid_argument, "a message of " + std::to_string(size) +
                                                   " bytes, more than the limit of " +
                                                   std::to_string(most_bytes_)};
    if (broken_) {
      buffer_.clear();
      buffer_.shrink_to_fit();
      begin_ = checked_ = 0;
      return broken_;
    }
    checked_ += frame_header_bytes + size;
  }
  return {};
}

std::optional<std::span<const std::byte>> frame_reader::next() {
  if (broken_ || held_bytes() < frame_header_bytes)
    return std::nullopt;
  const auto* header = buffer_.data() + begin_;
  auto size = message_bytes(header);
  if (held_bytes() < frame_header_bytes + size)
    return std::nullopt;
  begin_ += frame_header_bytes + size;
  return std::span{header + frame_header_bytes, size};
}

} // namespace farandole
