// Parses the command lines of the smaller commands (rendezvous, drain, chaos) by the launcher's rules, with the
// same error messages.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "messages/values/error.hpp"

namespace CLI {
class App;
class ParseError;
} // namespace CLI

namespace farandole {

struct app_result {
  std::vector<std::string> command; ///< the words from the first that is no option on
  std::string help;                 ///< if not empty, the user has requested help; the rest is to be ignored
};

/// Parses `words` by parse_arguments() and passes the options to `app`. Accepts "-np" for an option --num-proc,
/// and unambiguous prefixes of options. The error for an unknown option suggests the nearest one.
expected<app_result> parse_with(CLI::App& app, std::span<const std::string> words);

/// Converts the error that `app` has raised for `words` to an error message in the launcher's style.
std::string refusal_of(const CLI::App& app, const CLI::ParseError& problem,
                       std::span<const std::string> words);

} // namespace farandole
