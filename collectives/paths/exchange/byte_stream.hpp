// The parts of a bundle seen as one row of bytes, so that a path can cut pieces wherever it likes: a range
// that lies inside one part is sent from or received into the caller's own memory, any other is packed and
// unpacked. A part without memory (its member has joined) reads as the neutral element and swallows what is
// written.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

#include "collectives/paths/path.hpp"

namespace farandole {

class byte_stream {
public:
  /// One stretch of the row: `bytes` long, at `memory`, or without memory when null.
  struct stretch {
    const std::byte* memory = nullptr;
    std::size_t bytes = 0;
  };

  void add(const std::byte* memory, std::size_t bytes);
  std::size_t bytes() const { return ends_.empty() ? 0 : ends_.back(); }

  /// The memory of [from, from + bytes) when it lies inside one part; else null.
  const std::byte* whole(std::size_t from, std::size_t bytes) const;

  /// The stretches that make up [from, from + bytes), in order.
  template <class Each>
  void visit(std::size_t from, std::size_t bytes, Each&& each) const {
    for (std::size_t at = part_at(from); bytes != 0; ++at) {
      std::size_t begin = at == 0 ? 0 : ends_[at - 1];
      std::size_t length = std::min(ends_[at] - from, bytes);
      if (length == 0)
        continue;
      each(stretch{memory_[at] == nullptr ? nullptr : memory_[at] + (from - begin), length});
      from += length;
      bytes -= length;
    }
  }

private:
  /// Index of the part that holds byte `from`.
  std::size_t part_at(std::size_t from) const;

  std::vector<const std::byte*> memory_;
  std::vector<std::size_t> ends_;
};

/// The memory of an output stream, which the caller handed over to be written.
std::byte* writable(const std::byte* memory);
/// Copies a range out; `fill` writes `bytes` of the neutral element where there is no memory.
void pack(const byte_stream& from, std::size_t at, std::size_t bytes, std::byte* target,
          const std::function<void(std::byte*, std::size_t)>& fill);
/// Copies `source` into a range of parts that the caller may write.
void unpack(const std::byte* source, const byte_stream& target, std::size_t at, std::size_t bytes);

} // namespace farandole
