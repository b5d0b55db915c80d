// The tensors of a bundle as one stream of bytes, one after the other in order. Paths cut the stream at any
// position; this class tells which bytes of which tensors a cut holds, and their addresses in memory.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <functional>
#include <vector>

namespace farandole {

class tensor_stream {
public:
  /// Removes all tensors.
  void clear() { tensors_.clear(); }
  /// Appends a tensor at address `memory`: null for a member that has joined, and where only lengths matter.
  void append(std::size_t bytes, const std::byte* memory = nullptr) {
    tensors_.push_back({this->bytes() + bytes, memory});
  }

  std::size_t bytes() const { return tensors_.empty() ? 0 : tensors_.back().end; }

  /// A run of bytes inside one tensor.
  struct piece {
    std::size_t part = 0;   ///< index of the tensor
    std::size_t offset = 0; ///< in the tensor
    std::size_t at = 0;     ///< offset from the start of the cut
    std::size_t bytes = 0;
    const std::byte* memory = nullptr; ///< address of the piece; null if the tensor has none
  };

  /// Calls `visit` for each piece of [from, from + bytes), in order. Empty tensors have no piece.
  template <class Visit>
  void for_each(std::size_t from, std::size_t bytes, const Visit& visit) const {
    assert(from + bytes <= this->bytes());
    std::size_t part = part_at(from);
    for (std::size_t at = 0; at < bytes; ++part) {
      const std::size_t length = std::min(bytes - at, tensors_[part].end - from - at);
      if (length > 0)
        visit(piece_of(part, from + at, at, length));
      at += length;
    }
  }

  /// The piece that is exactly [from, from + bytes); a piece of 0 bytes if the range is empty or spans
  /// tensors.
  piece sole_piece(std::size_t from, std::size_t bytes) const {
    const std::size_t part = part_at(from);
    if (bytes == 0 || from + bytes > tensors_[part].end)
      return {};
    return piece_of(part, from, 0, bytes);
  }

  /// The address of [from, from + bytes) if that is one piece with memory; otherwise null.
  const std::byte* memory_of(std::size_t from, std::size_t bytes) const {
    return sole_piece(from, bytes).memory;
  }

private:
  struct tensor {
    std::size_t end; ///< offset of its end in the stream
    const std::byte* memory;
  };

  /// The tensor that holds the byte at `from`.
  std::size_t part_at(std::size_t from) const {
    const auto after = std::ranges::upper_bound(tensors_, from, {}, &tensor::end);
    return static_cast<std::size_t>(after - tensors_.begin());
  }
  piece piece_of(std::size_t part, std::size_t from, std::size_t at, std::size_t bytes) const {
    const std::size_t offset = from - (part == 0 ? 0 : tensors_[part - 1].end);
    const std::byte* memory = tensors_[part].memory;
    return {part, offset, at, bytes, memory == nullptr ? nullptr : memory + offset};
  }

  std::vector<tensor> tensors_;
};

/// Casts away const from the memory of an output, which the caller has passed to be written.
std::byte* writable(const std::byte* memory);
/// Copies [at, at + bytes) of the stream to `target`. For tensors without memory, `fill` writes that many
/// bytes of the neutral element.
void pack(const tensor_stream& from, std::size_t at, std::size_t bytes, std::byte* target,
          const std::function<void(std::byte*, std::size_t)>& fill);
/// Copies `source` into [at, at + bytes) of the stream, whose tensors the caller may write. Skips tensors
/// without memory.
void unpack(const std::byte* source, const tensor_stream& target, std::size_t at, std::size_t bytes);

} // namespace farandole
