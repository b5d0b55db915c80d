// SIGTERM as a wish: who gets it inside of an elastic loop leaves at the next commit, instead of dying in the
// middle of a step. The handler only remembers it; whoever commits looks. It lives in the process and not in
// Python, since Python runs handlers between two bytecodes, and the thread that would do so may wait here for
// others. A signal's handler has no owner but the process, so that this is a global.
#pragma once

#include <sys/types.h>

namespace farandole::native {

/// From now on SIGTERM is remembered, unless the process handles or ignores it already; whether it is. It
/// kills as ever when it comes a second time, when `launcher` sends it, which then ends the job, and in
/// forked children.
bool catch_termination(pid_t launcher);

/// Whether it came since.
bool termination_came();

/// SIGTERM kills again, unless somebody else has taken it over meanwhile.
void release_termination();

} // namespace farandole::native
