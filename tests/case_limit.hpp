// Limits the time of each test case of a runner, so that CTest's log names the case that hangs. When the limit of a case
// has passed, a signal handler prints the case's name and place, kills the processes that the case has forked, and aborts
// the runner. A POSIX timer sends the signal: the runner gets no further thread, which tests that count threads would
// see, and a forked process inherits no timer.
#pragma once

#include <chrono>

namespace farandole::testing {

/// The limit of each case, if the runner sets no other. Sanitizers make the tests several times slower.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr std::chrono::seconds usual_case_limit{600};
#else
inline constexpr std::chrono::seconds usual_case_limit{300};
#endif

/// Sets the limit of the cases that begin later; 0: none. The environment variable FARANDOLE_TEST_CASE_SECONDS has
/// precedence, for a debugger for example.
void limit_cases(std::chrono::seconds limit);

} // namespace farandole::testing
