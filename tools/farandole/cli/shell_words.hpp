// Options such as --mpi-args hold several words in one text, and callers of `sh -c` need one text for several words.
// Both follow the quoting rules of the POSIX shell, but nothing is expanded: $, *, ~ and backquotes stand for
// themselves.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "messages/values/error.hpp"

namespace farandole {

/// Splits a text at blanks that are neither quoted nor escaped. The error names a quote that is not closed; the
/// caller adds which option it is in.
expected<std::vector<std::string>> split_shell_words(std::string_view text);

/// A line that the shell splits into exactly these words.
std::string shell_line(std::span<const std::string> words);

} // namespace farandole
