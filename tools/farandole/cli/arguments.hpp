// Command lines as Python's argparse reads them, which scripts have got used to: unambiguous prefixes of
// options, long names behind one dash (-np), values behind "=", and a first word that ends the options, so
// that everything from there on belongs to the program to be started.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "messages/values/error.hpp"

namespace farandole {

struct option_shape {
  std::string name;                 ///< "--num-proc": what it is called in the result
  std::vector<std::string> aliases; ///< "-np", "-p", "--min-np"
  int values = 0;                   ///< how many follow
  bool whole_numbers = false;       ///< whether each value must be a 32-bit whole number
};

struct given_option {
  std::string name;
  std::vector<std::string> values;

  friend bool operator==(const given_option&, const given_option&) = default;
};

struct arguments {
  std::vector<given_option> options;
  std::vector<std::string> command; ///< from the first word on, as it is
};

/// `invalid_argument` in argparse's words, with the nearest option where a word is none.
expected<arguments> parse_arguments(std::span<const option_shape> shapes, std::span<const std::string> words);

} // namespace farandole
