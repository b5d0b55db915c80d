// Command lines of the smaller commands (rendezvous, drain, chaos): read like the launcher's, and refused in
// the same words.
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
  std::vector<std::string> command; ///< from the first word that is no option on
  std::string help;                 ///< not empty: help was asked for, and nothing else counts
};

/// Gives the options among `words` to `app`, as parse_arguments() reads them: with "-np" for an option
/// --num-proc, with prefixes, and with the nearest option where a word is none.
expected<app_result> parse_with(CLI::App& app, std::span<const std::string> words);

/// What was wrong with `words`, which `app` has refused by itself, in the launcher's words.
std::string refusal_of(const CLI::App& app, const CLI::ParseError& problem,
                       std::span<const std::string> words);

} // namespace farandole
