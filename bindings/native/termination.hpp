// SIGTERM as a request to leave: a member that receives it inside an elastic loop leaves at the next commit,
// instead of dying in the middle of a step. The handler only sets a flag, which the committing thread checks. The
// handler is native code, because Python runs its handlers between two bytecodes, and the thread that would run
// them may be waiting for other members in here. Signal handlers belong to the whole process, so this state is
// global.
#pragma once

#include <sys/types.h>

namespace farandole::native {

/// Declares this process a member of an elastic job that `launcher` has started: children that it forks from now on
/// can be guarded.
void expect_children(pid_t launcher);

/// From now on SIGTERM is remembered, unless the process handles or ignores it already; returns whether it is
/// remembered. The signal still kills when it comes a second time, when it comes from `launcher`, which then ends the
/// job, and in forked children that are not guarded.
bool catch_termination(pid_t launcher);

/// Whether SIGTERM has come since catch_termination().
bool termination_came();

/// Restores the default action of SIGTERM, unless other code has replaced the handler meanwhile.
void release_termination();

/// To be called in a forked child of a member. Schedulers send SIGTERM to all processes of the member, which still
/// needs its children (a data loader's workers, for example) until it has left the job. So the child ignores SIGTERM
/// while the member is inside its elastic loop. A child that has ignored a SIGTERM ends when its parent ends. SIGTERM
/// from the parent, the launcher and the child itself has its usual effect. The child uses a handler instead of
/// SIG_IGN, because programs that it executes must not inherit SIG_IGN.
///
/// May be called again when the child has installed its own handler, which then gets the signals that are not
/// ignored. A child that was forked before the loop ignores the signal once the member is inside the loop. Returns
/// false if the child is not guarded, because the member handles SIGTERM itself or has not called expect_children().
bool guard_forked_child();

} // namespace farandole::native
