// Compares the result of a disturbed run with that of an undisturbed one. Weights that a script prints must be
// equal; its accuracy must be reached. Pure functions without input or output.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace farandole::chaos {

/// The result of a run.
struct achievement {
  std::optional<std::string> weights; ///< the text behind the last "WEIGHTS " that the script has printed
  std::optional<double> accuracy;     ///< the last one that the script has printed
};

/// Updates the result from a line of the script's output, if the line contains weights or an accuracy.
void take_line(std::string_view line, achievement& into);

struct verdict {
  bool good = true;
  std::string text; ///< lines for the user
};

/// `must_compare`: the verdict is bad if there is nothing to compare.
verdict compare(const achievement& undisturbed, std::span<const achievement> disturbed, double tolerance,
                bool must_compare);

} // namespace farandole::chaos
