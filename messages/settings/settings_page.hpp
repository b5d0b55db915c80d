// The settings as a page of documentation, made from the one table, so that the page cannot say anything else
// than the code does.
#pragma once

#include <string>

namespace farandole {

/// Markdown, ending in a newline.
std::string settings_page();

} // namespace farandole
