// The command line of `farandole chaos`.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "messages/values/error.hpp"
#include "tools/farandole/chaos/schedule.hpp"
#include "tools/farandole/chaos/trial.hpp"
#include "tools/farandole/cli/option_description.hpp"

namespace farandole::chaos {

struct wishes {
  schedule_options schedule;
  trial_options trial;
  std::chrono::milliseconds deadline = std::chrono::seconds{60};
  bool compare = true;
  bool must_compare = false; ///< a script that prints nothing to compare is a failure
  double tolerance = 0.02;   ///< maximum loss of accuracy
  std::string plot;          ///< path of the picture; empty: none
  bool dry_run = false;
  std::string help; ///< if not empty, only this text is to be printed

  bool wants(fault_kind kind) const;
  /// Whether one of the faults needs hosts with a network of their own.
  bool wants_network() const;
};

/// Parses the words behind the command's name. A Python interpreter is searched first in the folder of
/// `called_as`, this program's argv[0].
expected<wishes> parse_wishes(const std::string& called_as, const std::vector<std::string>& words);

std::vector<option_description> options();

} // namespace farandole::chaos
