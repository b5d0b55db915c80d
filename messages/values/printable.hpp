// Names come from other processes, and lines go to terminals, where a control character can move the cursor,
// change what stands there already, or begin a line that nobody wrote. So they are written as \n, \x1b or
// \u202e before they are printed: names where a text is made of them, whole texts where they leave the
// library (the log, an exception, an error of the C interface).
#pragma once

#include <string>
#include <string_view>

namespace farandole {

/// Of a tensor, a host, a set: on one line, whatever it holds. What is printable stays as it is, in any
/// script.
std::string printable_name(std::string_view name);

/// Of a whole text, whose lines and tabs are its own.
std::string printable(std::string_view text);

} // namespace farandole
