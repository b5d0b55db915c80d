// The settings as a page of documentation, generated from the table of settings, so that the page always agrees
// with the code.
#pragma once

#include <string>

namespace farandole {

/// Markdown, ending in a newline.
std::string settings_page();

} // namespace farandole
