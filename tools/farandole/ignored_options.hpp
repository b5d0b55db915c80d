// Options that the launcher accepts without effect, so that command lines written for Horovod work. The launcher
// warns the user that they have no effect.
#pragma once

#include <string>
#include <vector>

#include "messages/settings/settings.hpp"

namespace CLI {
class App;
}

namespace farandole {

/// Heading in the help for options and settings without effect.
inline constexpr const char* ignored_group = "Accepted without effect in this build";

/// Adds the options that are not settings; those that are settings have a row in the table of settings.
void add_ignored_options(CLI::App& app);

/// The options and settings that were given and have no effect, settings first, each as the user has written it.
std::vector<std::string> ignored_names(const CLI::App& app, const settings& values);

} // namespace farandole
