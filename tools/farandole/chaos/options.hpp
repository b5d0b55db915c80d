// What the command line of `farandole chaos` asks for.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "messages/values/error.hpp"
#include "tools/farandole/chaos/schedule.hpp"
#include "tools/farandole/chaos/trial.hpp"

namespace farandole::chaos {

struct wishes {
  schedule_options schedule;
  trial_options trial;
  std::chrono::milliseconds deadline = std::chrono::seconds{60};
  bool compare = true;
  bool must_compare = false; ///< asked for, so that a script with nothing to compare is a failure
  double tolerance = 0.02;   ///< of accuracies
  std::string plot;          ///< path of a picture; empty: none
  bool dry_run = false;
  std::string help; ///< not empty: only this is asked for

  bool wants(fault_kind kind) const;
};

/// The words behind the command's name. `called_as`: an interpreter is looked for beside this program first.
expected<wishes> parse_wishes(const std::string& called_as, const std::vector<std::string>& words);

} // namespace farandole::chaos
