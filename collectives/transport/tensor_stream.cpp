#include "collectives/transport/tensor_stream.hpp"

#include <cstring>

namespace farandole {

std::byte* writable(const std::byte* memory) {
  return const_cast<std::byte*>(memory);
}

void pack(const tensor_stream& from, std::size_t at, std::size_t bytes, std::byte* target,
          const std::function<void(std::byte*, std::size_t)>& fill) {
  from.for_each(at, bytes, [&](const tensor_stream::piece& piece) {
    if (piece.memory != nullptr)
      std::memcpy(target + piece.at, piece.memory, piece.bytes);
    else
      fill(target + piece.at, piece.bytes);
  });
}

void unpack(const std::byte* source, const tensor_stream& target, std::size_t at, std::size_t bytes) {
  target.for_each(at, bytes, [&](const tensor_stream::piece& piece) {
    if (piece.memory != nullptr)
      std::memcpy(writable(piece.memory), source + piece.at, piece.bytes);
  });
}

} // namespace farandole
