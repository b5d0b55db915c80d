// Is the result of a disturbed run that of an undisturbed one? Weights that a script tells must be the same;
// accuracies must be reached. Plain decisions.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace farandole::chaos {

/// What a run has come to.
struct achievement {
  std::optional<std::string> weights; ///< what the script said behind "WEIGHTS " for the last time
  std::optional<double> accuracy;     ///< the last that it said
};

/// Takes in what a line tells, if it tells anything.
void take_line(std::string_view line, achievement& into);

struct verdict {
  bool good = true;
  std::string text; ///< lines for people
};

/// `must_compare`: that there is nothing to compare is no good.
verdict compare(const achievement& undisturbed, std::span<const achievement> disturbed, double tolerance,
                bool must_compare);

} // namespace farandole::chaos
