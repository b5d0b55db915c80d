// The options of `farandole run` as values. The table of settings adds the choices of its options to what CLI11 knows.
#pragma once

#include <vector>

#include "tools/farandole/cli/option_description.hpp"

namespace farandole {

/// Describes the launcher's `app`.
std::vector<option_description> described_for_run(const CLI::App& app);

} // namespace farandole
