// Finds the ends of lines in the output of workers, of which there may be gigabytes. std::string_view::find_first_of()
// calls memchr for each byte; this class calls it about once for each line.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace farandole {

class line_ends {
public:
  /// The bytes must stay valid.
  explicit line_ends(std::string_view bytes)
      : bytes_(bytes), newline_(bytes.find('\n')), return_(bytes.find('\r')) {}

  /// The position of the first \n or \r from here on; npos if there is none. `from` never decreases from call to call.
  std::size_t next(std::size_t from) {
    if (newline_ < from)
      newline_ = bytes_.find('\n', from);
    if (return_ < from)
      return_ = bytes_.find('\r', from);
    return std::min(newline_, return_);
  }

private:
  std::string_view bytes_;
  std::size_t newline_, return_; ///< the first of each at or after the last position asked for
};

} // namespace farandole
