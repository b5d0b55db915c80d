// Which file a command names, as a shell finds it, and what people are told when there is none or it cannot
// be run.
#pragma once

#include <string>
#include <string_view>

#include "messages/values/error.hpp"

namespace farandole {

/// The file that `command` names: itself if it has a slash, otherwise the first executable file of that name
/// in a folder of `path` (folders separated by colons). Errors: `invalid_argument` if there is no such file,
/// `precondition` if there is one that cannot be executed. Both say what to type instead where that is known.
expected<std::string> find_program(const std::string& command, std::string_view path);

/// Why `program`, which find_program() has found, did not start: `error_number` is execve's. Kinds as above.
error start_failure(const std::string& program, int error_number);

/// The exit code that a shell gives for such an error: 126 if the file cannot be executed, otherwise 127.
int start_failure_code(const error& problem);

} // namespace farandole
