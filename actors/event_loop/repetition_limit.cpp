#include "actors/event_loop/repetition_limit.hpp"

#include <algorithm>
#include <cctype>

namespace farandole {

namespace {

/// Returns the length of the IPv6 address in brackets at the start of the text, or 0 if there is none. The letters of
/// such an address are hexadecimal digits, so the whole address counts as one number.
std::size_t bracketed_address(std::string_view text) {
  const auto end = text.find_first_not_of("0123456789abcdefABCDEF:.%", 1);
  const bool whole = text.starts_with('[') && end != std::string_view::npos && text[end] == ']';
  return whole && text.substr(0, end).find(':') != std::string_view::npos ? end + 1 : 0;
}

std::string without_numbers(std::string_view text) {
  std::string pattern;
  bool in_number = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (const auto length = bracketed_address(text.substr(at)); length > 0) {
      pattern += "[#]";
      at += length - 1;
      in_number = false;
      continue;
    }
    const char letter = text[at];
    const bool digit = std::isdigit(static_cast<unsigned char>(letter)) != 0;
    if (!digit || !in_number)
      pattern += digit ? '#' : letter;
    in_number = digit;
  }
  return pattern;
}

} // namespace

bool repetition_limit::admit(const call_site& site, std::string_view text, time_point current_time) {
  auto [position, is_new] = kinds_.try_emplace(kind{site, without_numbers(text)});
  auto& lines = position->second;
  if (lines.counted == 0 && current_time - lines.last_seen >= interval)
    lines.logged = 0;
  lines.last_seen = current_time;
  if (is_new)
    make_room();
  if (lines.logged < first_lines) {
    ++lines.logged;
    return true;
  }
  if (lines.counted++ == 0)
    lines.counted_from = current_time;
  lines.last_text = text;
  return false;
}

// Removes the kind that was seen longest ago if there are too many. Its count is lost. The limit is far above the
// number of kinds in the program.
void repetition_limit::make_room() {
  if (kinds_.size() > kind_limit)
    kinds_.erase(std::min_element(kinds_.begin(), kinds_.end(), [](const auto& left, const auto& right) {
      return left.second.last_seen < right.second.last_seen;
    }));
}

auto repetition_limit::due(time_point current_time) -> std::vector<summary> {
  return take(current_time - interval);
}

auto repetition_limit::rest() -> std::vector<summary> {
  return take(time_point::max());
}

auto repetition_limit::take(time_point counted_before) -> std::vector<summary> {
  std::vector<summary> all;
  for (auto& [which, lines] : kinds_)
    if (lines.counted > 0 && lines.counted_from <= counted_before)
      all.push_back(summarize(which, lines));
  return all;
}

auto repetition_limit::summarize(const kind& which, history& lines) -> summary {
  const auto span = std::chrono::ceil<std::chrono::seconds>(lines.last_seen - lines.counted_from).count();
  summary made{which.first, lines.counted,
               std::to_string(lines.counted) + " more like this within " +
                   std::to_string(std::max<std::int64_t>(span, 1)) + " s; the last: " + lines.last_text};
  lines.counted = 0;
  return made;
}

} // namespace farandole
