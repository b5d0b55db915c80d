// Options that the launcher accepts although they do nothing yet, so that command lines written for Horovod
// work. Whoever gives one is told that it has no effect.
#pragma once

#include <string>
#include <vector>

#include "messages/settings/settings.hpp"

namespace CLI {
class App;
}

namespace farandole {

/// Group of the help for options and settings without effect.
inline constexpr const char* ignored_group = "Accepted without effect in this build";

/// Adds the options that are no settings; those that are settings have a row in the table.
void add_ignored_options(CLI::App& app);

/// What was given and has no effect, settings first, each as it was given.
std::vector<std::string> ignored_names(const CLI::App& app, const settings& values);

} // namespace farandole
