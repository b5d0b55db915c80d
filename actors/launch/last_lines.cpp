#include "actors/launch/last_lines.hpp"

#include <algorithm>
#include <utility>

#include "actors/launch/line_ends.hpp"

namespace farandole {

void last_lines::take(std::string_view bytes) {
  line_ends ends(bytes);
  for (std::size_t begin = 0; begin < bytes.size();) {
    const auto end = ends.next(begin);
    const auto piece =
        bytes.substr(begin, end - begin); // up to the end of the bytes, if the line is incomplete
    begun_ += piece.substr(0, longest_line - std::min(longest_line, begun_.size()));
    if (end == std::string_view::npos)
      return;
    if (!begun_.empty())
      whole_.push_back(std::exchange(begun_, {}));
    if (whole_.size() > most_lines)
      whole_.pop_front();
    begin = end + 1;
  }
}

std::deque<std::string> last_lines::lines() const {
  auto all = whole_;
  if (!begun_.empty())
    all.push_back(begun_);
  if (all.size() > most_lines)
    all.pop_front();
  return all;
}

} // namespace farandole
