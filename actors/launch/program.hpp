// Finds the file of a command in PATH, as a shell does, and makes the error if there is none or if it cannot be
// executed.
#pragma once

#include <string>
#include <string_view>

#include "messages/values/error.hpp"

namespace farandole {

/// Returns the file of `command`: `command` itself if it contains a slash, otherwise the first executable file of
/// that name in a folder of `path` (folders separated by colons). Errors:
///   `invalid_argument`  there is no such file
///   `precondition`      there is one, but it cannot be executed
/// Both suggest a correct command if one is known.
expected<std::string> find_program(const std::string& command, std::string_view path);

/// The error for a `program` that find_program() has found but execve could not start. `error_number` is the errno of
/// execve. The kinds are those of find_program().
error start_failure(const std::string& program, int error_number);

/// Returns the exit code of a shell for such an error: 126 if the file cannot be executed, otherwise 127.
int start_failure_code(const error& problem);

} // namespace farandole
