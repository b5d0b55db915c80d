// Names come from other processes, and log lines go to terminals, where a control character can move the
// cursor, overwrite text, or forge a line. So control characters are escaped as \n, \x1b or \u202e: in names
// when a text is composed of them, and in whole texts when they leave the library (the log, an exception, an
// error of the C interface).
#pragma once

#include <string>
#include <string_view>

namespace farandole {

/// Escapes the name of a tensor, a host or a set, so that it always fits on one line. Printable characters of
/// any script stay unchanged.
std::string printable_name(std::string_view name);

/// Escapes a whole text. Its line breaks and tabs are kept.
std::string printable(std::string_view text);

} // namespace farandole
