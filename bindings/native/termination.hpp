// SIGTERM as a wish: who gets it inside of an elastic loop leaves at the next commit, instead of dying in the
// middle of a step. The handler only remembers it; whoever commits looks. It lives in the process and not in
// Python, since Python runs handlers between two bytecodes, and the thread that would do so may wait here for
// others. A signal's handler has no owner but the process, so that this is a global.
#pragma once

#include <sys/types.h>

namespace farandole::native {

/// This process is a member of an elastic job that `launcher` has started: children that it forks from now on
/// can be guarded.
void expect_children(pid_t launcher);

/// From now on SIGTERM is remembered, unless the process handles or ignores it already; whether it is. It
/// kills as ever when it comes a second time, when `launcher` sends it, which then ends the job, and in
/// forked children that are not guarded.
bool catch_termination(pid_t launcher);

/// Whether it came since.
bool termination_came();

/// SIGTERM kills again, unless somebody else has taken it over meanwhile.
void release_termination();

/// To be called in a forked child of a member. Schedulers send SIGTERM to all processes of the member, which
/// still needs its children (a data loader's workers, for example) until it has left the job. So the child
/// ignores it as long as the member is inside of its elastic loop, and ends with its parent if it has ignored
/// one. SIGTERM of the parent, of the launcher and of the child itself has its usual effect. It is a handler,
/// and not SIG_IGN, because programs that the child executes must not inherit it. May be called again when
/// the child has installed a handler of its own: that one then gets what is not ignored. A child that was
/// forked before the loop ignores the signal once the member is inside of it. False: the child is not
/// guarded, because the member handles SIGTERM itself, or has not called expect_children().
bool guard_forked_child();

} // namespace farandole::native
