#include "actors/launch/last_lines.hpp"

#include <algorithm>
#include <utility>

namespace farandole {

void last_lines::take(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto end = bytes.find_first_of("\r\n");
    const auto piece = bytes.substr(0, end);
    begun_ += piece.substr(0, longest_line - std::min(longest_line, begun_.size()));
    if (end == std::string_view::npos)
      return;
    if (!begun_.empty())
      whole_.push_back(std::exchange(begun_, {}));
    if (whole_.size() > most_lines)
      whole_.pop_front();
    bytes.remove_prefix(end + 1);
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
