// The tensors of a bundle seen as one stream of bytes, one after the other in order. Paths cut the stream
// where it suits them; this tells which bytes of which tensors a cut holds.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <span>
#include <vector>

namespace farandole {

class concatenation {
public:
  /// Forgets what it held.
  void clear() { ends_.clear(); }
  void append(std::size_t bytes) { ends_.push_back(this->bytes() + bytes); }

  std::size_t bytes() const { return ends_.empty() ? 0 : ends_.back(); }

  /// A run of bytes inside one tensor.
  struct piece {
    std::size_t part;   ///< which tensor
    std::size_t offset; ///< in the tensor
    std::size_t at;     ///< behind the start of the cut
    std::size_t bytes;
  };

  /// Calls `visit` for each piece of [from, from + bytes), in order; empty tensors have none.
  template <class Visit>
  void each(std::size_t from, std::size_t bytes, const Visit& visit) const {
    assert(from + bytes <= this->bytes());
    std::size_t part = part_at(from);
    for (std::size_t at = 0; at < bytes; ++part) {
      const std::size_t offset = from + at - start(part);
      const std::size_t length = std::min(bytes - at, ends_[part] - from - at);
      if (length > 0)
        visit(piece{part, offset, at, length});
      at += length;
    }
  }

  /// The one piece that [from, from + bytes) is, or a piece of 0 bytes when it is several or none.
  piece sole_piece(std::size_t from, std::size_t bytes) const {
    const std::size_t part = part_at(from);
    if (bytes == 0 || from + bytes > ends_[part])
      return {0, 0, 0, 0};
    return {part, from - start(part), 0, bytes};
  }

private:
  std::size_t start(std::size_t part) const { return part == 0 ? 0 : ends_[part - 1]; }
  /// The tensor that holds the byte at `from`.
  std::size_t part_at(std::size_t from) const {
    return static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), from) - ends_.begin());
  }

  std::vector<std::size_t> ends_; ///< of each tensor, in the stream
};

} // namespace farandole
