#include "tools/farandole/cli/shell_words.hpp"

#include <utility>

namespace farandole {

namespace {

constexpr std::string_view blanks = " \t\r\n";

/// Moves a quoted text, whose opening quote stands at `at`, to the end of `word`. Returns the position after the
/// closing quote; npos if there is none.
std::size_t read_quoted(std::string_view text, std::size_t at, std::string& word) {
  const char quote = text[at++];
  for (; at < text.size() && text[at] != quote; ++at) {
    // Within double quotes, a backslash escapes only these characters.
    if (quote == '"' && text[at] == '\\' && at + 1 < text.size() &&
        std::string_view("\"\\$`").find(text[at + 1]) != std::string_view::npos)
      ++at;
    word += text[at];
  }
  return at < text.size() ? at + 1 : std::string_view::npos;
}

bool is_plain(std::string_view word) {
  return !word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                 "0123456789_@%+=:,./^-") == std::string_view::npos;
}

} // namespace

expected<std::vector<std::string>> split_shell_words(std::string_view text) {
  std::vector<std::string> words;
  for (auto at = text.find_first_not_of(blanks); at != std::string_view::npos;
       at = text.find_first_not_of(blanks, at)) {
    std::string word;
    while (at < text.size() && blanks.find(text[at]) == std::string_view::npos) {
      if (text[at] == '\'' || text[at] == '"') {
        const auto quote = text[at];
        at = read_quoted(text, at, word);
        if (at == std::string_view::npos)
          return error{error_kind::invalid_argument,
                       std::string("the quote ") + quote + " is not closed; add the closing one"};
      } else {
        if (text[at] == '\\' && at + 1 < text.size())
          ++at;
        word += text[at++];
      }
    }
    words.push_back(std::move(word));
  }
  return words;
}

std::string shell_line(std::span<const std::string> words) {
  std::string line;
  for (const auto& word : words) {
    const bool is_assignment = line.empty() && word.find('=') != std::string::npos;
    line += line.empty() ? "" : " ";
    if (is_plain(word) && !is_assignment) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char letter : word)
      line += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
    line += '\'';
  }
  return line;
}

} // namespace farandole
