// `farandole check`, also `horovodrun --check-build`: what this build can do, tried and not assumed, and
// every setting with its value and where that came from.
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

/// What is reported, gathered.
struct build_facts {
  std::string version; ///< Farandole's own
  std::vector<framework> frameworks;
  std::vector<capability> controllers;
  std::vector<capability> operations;
  std::vector<capability> paths;
};

build_facts find_facts(const std::string& program);

/// The first blocks are those of Horovod's report, letter for letter; Farandole's version and paths follow.
std::string build_report(const build_facts& facts);
/// Which path can move which operation, and why another cannot. A path that is not there moves nothing.
std::string operations_report(const build_facts& facts);
std::string settings_report(const settings& values);
/// For --verbose: why a framework does not load.
std::string reasons_report(const build_facts& facts);

} // namespace farandole
