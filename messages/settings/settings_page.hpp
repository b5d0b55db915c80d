// The settings as a page of documentation, generated from the table of settings, so that the page always agrees
// with the code.
#pragma once

#include <string>

#include "messages/settings/settings.hpp"

namespace farandole {

/// The values that a setting takes: "switch", "gloo, mpi", "0 to 86400 s".
std::string values_of(const setting_row& row);

/// Markdown, ending in a newline.
std::string settings_page();

} // namespace farandole
