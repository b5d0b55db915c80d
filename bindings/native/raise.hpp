// Turns the core's error values into the exceptions that the Python interface promises.
#pragma once

#include <string>

#include "messages/values/error.hpp"

namespace farandole::native {

/// ValueError for `invalid_argument`; for all else the class that farandole.common.exceptions.make_error()
/// chooses, HorovodInternalError or one derived from it. It carries the error's kind ("disconnected") as its
/// attribute `kind`, and the process set that failed alone, if one did, as `process_set`.
[[noreturn]] void raise(const error& problem);

/// The same for a request that was not accepted: NotImplementedError for `unimplemented`. In an operation that was
/// accepted, this kind is a failure like any other, and its class tells the caller whether to retry.
[[noreturn]] void raise_refusal(const error& problem);

[[noreturn]] void raise_value_error(const std::string& text);
[[noreturn]] void raise_type_error(const std::string& text);

} // namespace farandole::native
