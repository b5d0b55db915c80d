// Turns the core's error values into the exceptions that the Python interface promises.
#pragma once

#include <string>

#include "messages/error.hpp"

namespace farandole::native {

/// ValueError for `invalid_argument`, farandole.common.exceptions.HorovodInternalError for all else; the
/// latter carries the error's kind ("disconnected") as its attribute `kind`.
[[noreturn]] void raise(const error& problem);

[[noreturn]] void raise_value_error(const std::string& text);
[[noreturn]] void raise_type_error(const std::string& text);

/// For calls in a forked child, where the runtime of the parent must not be touched.
error forked_error();

} // namespace farandole::native
