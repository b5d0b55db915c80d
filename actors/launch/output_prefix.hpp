// Many processes share one terminal. Each line that a worker prints gets the worker's name in front, and only
// whole lines go out, so that lines of different workers never mix and no character of several bytes is torn
// apart.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace farandole {

/// One stream of one worker. A line ends with \n, \r (progress bars) or \r\n.
class output_prefix {
public:
  /// A line longer than this goes out in pieces; only the first has the prefix.
  static constexpr std::size_t longest_held = 1 << 20;

  explicit output_prefix(std::string prefix) : prefix_(std::move(prefix)) {}

  /// The whole lines that `bytes` completes. `stamp` (may be empty) stands in front of each prefix.
  std::string take(std::string_view bytes, std::string_view stamp);
  /// The stream has ended: the rest, as a line.
  std::string end(std::string_view stamp);

private:
  void open_line(std::string& text, std::string_view stamp);

  std::string prefix_;
  std::string held_;          ///< begin of a line whose end has not come
  bool in_line_ = false;      ///< the line's first piece has gone out
  bool after_return_ = false; ///< a \n now belongs to the line before
};

} // namespace farandole
