// FARANDOLE_SECRET holds the job's secret where a launcher can pass nothing but a variable. Programs that this process
// starts would inherit it, so init() moves it from the environment into memory of this process, from which later calls
// of init() read it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace farandole {

inline constexpr std::string_view secret_variable_name = "FARANDOLE_SECRET";

/// Returns the value of the variable, or the value that this process has moved from it; none if it was never set.
std::optional<std::string> secret_variable();

/// Stores the value and removes the variable from the environment; does nothing if it is not set. Like every change of
/// the environment, this must not run while another thread reads the environment, so init() calls it on the caller's
/// thread before it starts threads. The block of variables with which the process was started keeps the value: this
/// user and root can read it in /proc/PID/environ.
void take_secret_variable();

} // namespace farandole
