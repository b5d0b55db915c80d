// Parses command lines as Python's argparse does, because existing scripts rely on its rules:
// - unambiguous prefixes of options are accepted;
// - long names may follow one dash (-np);
// - values may follow "=";
// - the first word that is no option ends the options: it and the rest are the command to be started.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "messages/values/error.hpp"

namespace farandole {

struct option_shape {
  std::string name;                 ///< name in the result, such as "--num-proc"
  std::vector<std::string> aliases; ///< other names, such as "-np", "-p"
  int values = 0;                   ///< number of values that follow
  bool whole_numbers = false;       ///< whether each value must be a 32-bit integer
};

struct given_option {
  std::string name;
  std::vector<std::string> values;

  friend bool operator==(const given_option&, const given_option&) = default;
};

struct arguments {
  std::vector<given_option> options;
  std::vector<std::string> command; ///< the words from the first that is no option on, unchanged
};

/// Errors are `invalid_argument` with argparse's text. The error for an unknown option suggests the nearest one.
expected<arguments> parse_arguments(std::span<const option_shape> shapes, std::span<const std::string> words);

} // namespace farandole
