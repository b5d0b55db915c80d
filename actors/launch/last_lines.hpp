// The last lines that a process wrote, for the report of its failure. Bounded, however much is written.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

namespace farandole {

class last_lines {
public:
  static constexpr std::size_t most_lines = 10;
  static constexpr std::size_t longest_line = 500; ///< bytes; the rest of a line is dropped

  /// Any piece of the stream. Empty lines do not count.
  void take(std::string_view bytes);
  /// Oldest first; the last one may have no end yet.
  std::deque<std::string> lines() const;

private:
  std::deque<std::string> whole_;
  std::string begun_;
};

} // namespace farandole
