// Keeps the last lines of a process' output, for the report of its failure. Its memory is bounded.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

namespace farandole {

class last_lines {
public:
  static constexpr std::size_t most_lines = 10;
  static constexpr std::size_t longest_line = 500; ///< bytes; the rest of a longer line is dropped

  /// Appends the next piece of the stream, which may end within a line. Empty lines are ignored.
  void take(std::string_view bytes);
  /// Returns the last lines, oldest first. The last one may be incomplete.
  std::deque<std::string> lines() const;

private:
  std::deque<std::string> whole_;
  std::string begun_;
};

} // namespace farandole
