// Short texts in memory that another process may read at any moment.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <string_view>

namespace farandole {

/// Stores the text, shortened so that a zero follows, and fills the rest with zeros. Relaxed: a release store of what says
/// that the text is complete must follow.
template <std::size_t size>
void store_text(std::array<std::atomic<char>, size>& target, std::string_view text) {
  for (std::size_t i = 0; i < size; ++i)
    target[i].store(i < text.size() && i + 1 < size ? text[i] : '\0', std::memory_order_relaxed);
}

} // namespace farandole
