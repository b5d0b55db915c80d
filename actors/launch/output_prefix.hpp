// Prefixes each line of a worker's output with the worker's name, because many workers share one terminal. Only
// complete lines are written, so that lines of different workers never mix and no multi-byte character is split; the
// worker that a user talks to is the exception.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace farandole {

/// One output stream of one worker. A line ends with \n, \r (progress bars) or \r\n.
class output_prefix {
public:
  /// A line longer than this (in bytes) is written in pieces, of which only the first has the prefix.
  static constexpr std::size_t longest_held = 1 << 20;

  /// With `interactive`, the start of a line is written at once: it may be the question of a program to its user.
  explicit output_prefix(std::string prefix, bool interactive = false)
      : prefix_(std::move(prefix)), most_held_bytes_(interactive ? 0 : longest_held) {}

  /// Appends bytes of the stream. Returns the lines that they complete. `stamp` (may be empty) precedes each prefix.
  std::string take(std::string_view bytes, std::string_view stamp);
  /// The stream has ended. Returns the incomplete last line, with a newline.
  std::string end(std::string_view stamp);

private:
  void open_line(std::string& text, std::string_view stamp);

  std::string prefix_;
  std::size_t most_held_bytes_;
  std::string held_;          ///< start of a line whose end has not arrived
  bool in_line_ = false;      ///< the first piece of the current line was written
  bool after_return_ = false; ///< the last byte was \r: a \n that follows belongs to the same line end
};

} // namespace farandole
