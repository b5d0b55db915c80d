// Feeds arbitrary bytes as a worker's output, cut into pieces. Every byte must be written in order after its
// prefix, the lines kept for a report must be bounded, and printable text must stay printable. The first byte
// selects the size of the pieces.
#include "actors/launch/last_lines.hpp"
#include "actors/launch/output_prefix.hpp"
#include "messages/values/printable.hpp"
#include "tests/fuzz/choices.hpp"

using namespace farandole;

namespace {

constexpr std::string_view prefix = "[1]<stdout>:";

std::string without_prefixes(std::string text) {
  for (auto at = text.find(prefix); at != std::string::npos; at = text.find(prefix, at))
    text.erase(at, prefix.size());
  return text;
}

bool has_control(std::string_view text, std::string_view but) {
  return std::any_of(text.begin(), text.end(), [&](char letter) {
    const auto byte = static_cast<unsigned char>(letter);
    return (byte < 0x20 || byte == 0x7f) && but.find(letter) == std::string_view::npos;
  });
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  choices input{{data, size}};
  const std::size_t piece = std::size_t{input.byte()} + 1;
  const auto stream = text_of(input.rest());
  output_prefix lines{std::string(prefix)};
  last_lines last;
  std::string out;
  for (std::size_t at = 0; at < stream.size(); at += piece) {
    out += lines.take(stream.substr(at, piece), "");
    last.take(stream.substr(at, piece));
    const auto kept = last.lines();
    require(kept.size() <= last_lines::most_lines + 1);
    for (const auto& line : kept)
      require(line.size() <= last_lines::longest_line);
  }
  out += lines.end("");
  if (stream.find(prefix) == std::string_view::npos) {
    const auto plain = without_prefixes(out);
    require(plain.starts_with(stream) && plain.size() <= stream.size() + 1);
  }
  require(!has_control(printable_name(stream), "") && !has_control(printable(stream), "\n\t"));
  require(printable_name(printable_name(stream)).size() >= printable_name(stream).size());
  return 0;
}
