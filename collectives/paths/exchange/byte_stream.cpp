#include "collectives/paths/exchange/byte_stream.hpp"

#include <cassert>
#include <cstring>

namespace farandole {

void byte_stream::add(const std::byte* memory, std::size_t bytes) {
  memory_.push_back(memory);
  ends_.push_back(this->bytes() + bytes);
}

const std::byte* byte_stream::whole(std::size_t from, std::size_t bytes) const {
  std::size_t at = part_at(from);
  if (at == ends_.size() || memory_[at] == nullptr || ends_[at] - from < bytes)
    return nullptr;
  return memory_[at] + (from - (at == 0 ? 0 : ends_[at - 1]));
}

std::size_t byte_stream::part_at(std::size_t from) const {
  return static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), from) - ends_.begin());
}

std::byte* writable(const std::byte* memory) {
  return const_cast<std::byte*>(memory);
}

void pack(const byte_stream& from, std::size_t at, std::size_t bytes, std::byte* target,
          const std::function<void(std::byte*, std::size_t)>& fill) {
  from.visit(at, bytes, [&](byte_stream::stretch piece) {
    if (piece.memory != nullptr)
      std::memcpy(target, piece.memory, piece.bytes);
    else
      fill(target, piece.bytes);
    target += piece.bytes;
  });
}

void unpack(const std::byte* source, const byte_stream& target, std::size_t at, std::size_t bytes) {
  target.visit(at, bytes, [&](byte_stream::stretch piece) {
    if (piece.memory != nullptr)
      std::memcpy(writable(piece.memory), source, piece.bytes);
    source += piece.bytes;
  });
}

} // namespace farandole
