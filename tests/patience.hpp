// The deadline of a wait in a test. Tests wait for events, so only a test that fails waits so long.
#pragma once

#include <chrono>

namespace farandole::testing {

/// On a shared machine a process may be descheduled for seconds, so this is much longer than any event takes. It is
/// shorter than the limit of a case (case_limit.hpp), so that the first assertion that fails names its event.
inline constexpr std::chrono::minutes patience{2};
/// The same for poll().
inline constexpr int patience_ms = std::chrono::milliseconds(patience).count();

} // namespace farandole::testing
