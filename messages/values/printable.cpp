#include "messages/values/printable.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace farandole {

namespace {

struct character {
  std::uint32_t code = 0;
  std::size_t bytes = 0; ///< 0: not a character of UTF-8
};

character first_of(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char first = byte(0);
  if (first < 0x80)
    return {first, 1};
  const std::size_t bytes = first >= 0xf0 && first < 0xf5 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
  if (bytes == 0 || first >= 0xf5 || text.size() < bytes)
    return {};
  std::uint32_t code = first & (0xffU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80)
      return {};
    code = code << 6 | (byte(i) & 0x3fU);
  }
  constexpr std::array<std::uint32_t, 5> smallest_code = {0, 0, 0x80, 0x800, 0x10000};
  if (code < smallest_code[bytes] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
    return {};
  return {code, bytes};
}

/// Control characters, and characters that break lines or change the direction of text.
bool is_control(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029 ||
         (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

std::string digits(std::uint32_t value, int count) {
  std::string text;
  while (count-- > 0)
    text += "0123456789abcdef"[(value >> (4 * count)) & 15];
  return text;
}

std::string escape(std::uint32_t code) {
  switch (code) {
  case '\n':
    return "\\n";
  case '\r':
    return "\\r";
  case '\t':
    return "\\t";
  default:
    return code < 0x100 ? "\\x" + digits(code, 2) : "\\u" + digits(code, 4);
  }
}

std::string written(std::string_view text, std::string_view kept) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const auto next = first_of(text);
    const auto bytes = next.bytes == 0 ? 1 : next.bytes;
    if (next.bytes == 0)
      result += escape(static_cast<unsigned char>(text[0]));
    else if (is_control(next.code) && kept.find(text[0]) == std::string_view::npos)
      result += escape(next.code);
    else
      result += text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return result;
}

} // namespace

std::string printable_name(std::string_view name) {
  return written(name, "");
}

std::string printable(std::string_view text) {
  return written(text, "\n\t");
}

} // namespace farandole
