// `farandole check`, also `horovodrun --check-build`: reports the capabilities of this build, which are tested
// rather than assumed, and every setting with its value and the source of the value.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "messages/settings/settings.hpp"
#include "tools/farandole/cli/frameworks.hpp"

namespace farandole {

struct capability {
  std::string label;
  bool present = false;
};

/// The data of the report.
struct build_facts {
  std::string version; ///< Farandole's own
  std::vector<framework> frameworks;
  std::vector<capability> controllers;
  std::vector<capability> operations;
  std::vector<capability> paths;
  std::vector<capability> profiling;
};

build_facts find_facts(const std::string& program);

/// The first blocks equal those of Horovod's report exactly; Farandole's paths, profiling and version follow.
std::string build_report(const build_facts& facts);
/// The paths that support each operation, and the reasons why others do not. An absent path supports none.
std::string operations_report(const build_facts& facts);
std::string settings_report(const settings& values);
/// For --verbose: the reason for each framework that does not load.
std::string reasons_report(const build_facts& facts);

} // namespace farandole
