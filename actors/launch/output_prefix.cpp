#include "actors/launch/output_prefix.hpp"

#include "actors/launch/line_ends.hpp"

namespace farandole {

void output_prefix::open_line(std::string& text, std::string_view stamp) {
  if (!in_line_) {
    text += stamp;
    text += prefix_;
  }
  text += held_;
  held_.clear();
}

std::string output_prefix::take(std::string_view bytes, std::string_view stamp) {
  std::string text;
  if (after_return_ && !bytes.empty()) {
    after_return_ = false;
    if (bytes.front() == '\n') {
      text += '\n';
      bytes.remove_prefix(1);
    }
  }
  line_ends ends(bytes);
  std::size_t begin = 0;
  for (auto end = ends.next(0); end != std::string_view::npos; end = ends.next(begin)) {
    const bool pair = bytes[end] == '\r' && end + 1 < bytes.size() && bytes[end + 1] == '\n';
    after_return_ = bytes[end] == '\r' && end + 1 == bytes.size();
    open_line(text, stamp);
    text += bytes.substr(begin, end + 1 + pair - begin);
    in_line_ = false;
    begin = end + 1 + pair;
  }
  held_ += bytes.substr(begin);
  if (held_.size() <= most_held_bytes_)
    return text;
  // Cut before the last UTF-8 character, which may be incomplete. Bytes 10xxxxxx are continuation bytes.
  std::size_t cut = held_.size();
  for (int step = 0; step < 3 && cut > 0 && (static_cast<unsigned char>(held_[cut - 1]) & 0xc0) == 0x80;
       ++step)
    --cut;
  if (cut > 0 && (static_cast<unsigned char>(held_[cut - 1]) & 0xc0) == 0xc0)
    --cut;
  if (cut == 0)
    return text;
  std::string rest = held_.substr(cut);
  held_.resize(cut);
  open_line(text, stamp);
  in_line_ = true;
  held_ = std::move(rest);
  return text;
}

std::string output_prefix::end(std::string_view stamp) {
  std::string text;
  if (held_.empty() && !in_line_)
    return text;
  open_line(text, stamp);
  text += '\n';
  in_line_ = false;
  return text;
}

} // namespace farandole
