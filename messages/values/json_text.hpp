// Texts in the JSON that the project writes, such as the events for the caller of the launcher.
#pragma once

#include <string>
#include <string_view>

namespace farandole {

/// A text as JSON: in quotes, with quotes, backslashes and control characters escaped. Other bytes stay unchanged, so
/// the text must be UTF-8.
std::string json_text(std::string_view text);

} // namespace farandole
