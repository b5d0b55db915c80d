"""The one runtime that ``init()`` makes, and this process's ranks in its job.

The native runtime makes all decisions; this module only holds it. Before ``init()`` and after ``shutdown()``, a
placeholder takes its place that raises an error when it is used, so that the call path of a tensor needs no check.
"""

from __future__ import annotations

import atexit
import os
import threading
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Callable, List, NoReturn, Optional, Sequence

from farandole.common import departure, stalls
from farandole.common.exceptions import HorovodInternalError, make_error

NOT_STARTED = "Farandole has not been initialized; call init() first"


def refusal(why: str) -> HorovodInternalError:
    """The exception for an operation that cannot be called now; ``why`` states the remedy."""
    return make_error("precondition", why)


class _NotStarted:
    """Placeholder for the runtime before ``init()`` and after ``shutdown()``."""

    alive = False
    usable_here = True
    has_mpi = False

    def submit(self, *_: object) -> NoReturn:
        """Raises the error that ``init()`` has not been called."""
        raise refusal(NOT_STARTED)

    submit_and_wait = submit
    submit_pending = submit
    submit_group = submit
    failures = submit

    def memory(self, *_: object) -> None:
        """Returns None."""

    def wait_for_devices(self) -> None:
        """Returns at once: there is no operation."""

    def counters(self) -> dict[str, int]:
        """No tensor has moved."""
        return {"by_nccl": 0}


@dataclass(frozen=True)
class Topology:
    """Where this process stands; fixed from one ``init()`` to the next ``shutdown()``."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int
    is_homogeneous: bool


runtime: Any = _NotStarted()
"""The runtime of the job; a ``farandole._native.Runtime`` between ``init()`` and ``shutdown()``."""

topology: Optional[Topology] = None

last_topology: Optional[Topology] = None
"""The topology, which stays after ``shutdown()``."""

_guard = threading.Lock()
_owner_pid = 0
_epoch = 0  # highest epoch of a rendezvous that this process has obeyed, across all of its runtimes
_joined = 0  # jobs that this process has joined
_meeting: Any = None  # in a job of torchrun; a ``farandole._native.StoreMeeting``


def is_started() -> bool:
    """Whether ``init()`` has been called, and ``shutdown()`` not since."""
    return topology is not None


def where() -> Topology:
    """This process's topology; ``ValueError`` before ``init()``."""
    if topology is None:
        raise ValueError(NOT_STARTED)
    return topology


_MEMBER = "_FARANDOLE_MEMBER"
"""The environment variable by which processes that a member starts know that they are not members. It holds the
member's process id and the text that names its place in the job. The underscore keeps it out of the settings."""

_SECRET = "FARANDOLE_SECRET"


def refuse_in_child() -> None:
    """Raises in a process that a member has forked, spawned or started otherwise with its own environment: it would
    join as the same rank."""
    if topology is not None and os.getpid() != _owner_pid:
        raise refusal(
            "this process was forked from a member of a Farandole job and cannot call init(); "
            "start it with the 'spawn' method instead"
        )
    from farandole import _native

    member, _, environment = os.environ.get(_MEMBER, "").partition(" ")
    if not member or member == str(os.getpid()) or environment != _native.place_in_environment():
        return
    rank = os.environ.get("HOROVOD_RANK") or os.environ.get("RANK")
    raise refusal(
        f"init() was called in process {os.getpid()}, which is no member of the job: process {member}"
        f"{f' (rank {rank})' if rank else ''} is the member, and this process inherits its environment. A process that "
        "is started with the method 'spawn' imports the script anew: put the main part of the script, init() included, "
        'under `if __name__ == "__main__":`, and call init() in the member alone'
    )


def start(
    process_sets: List[List[int]],
    mpi_ranks: Sequence[int] = (),
    progress: int = 0,
    set_rules: Sequence[Callable[..., bool]] = (),
    sets_before: Optional[Sequence[Any]] = None,
    state_generation: int = 0,
) -> bool:
    """Joins the job that the environment names. A no-op while the job runs; starts anew when it has ended.

    ``process_sets`` are to exist besides the global one. ``mpi_ranks`` are the processes of MPI's world that are the
    job, where MPI started them; none: all. ``progress`` tells where the training stands, in an elastic job: members of
    different numbers must sync. ``set_rules`` decide the members of the sets by rule; each is called with the facts
    of every member. ``sets_before`` are the sets of the previous generation, if this process goes on with them.
    ``state_generation`` is the generation in which it last received the training state, 0 if it has none. Returns
    True if it joined.
    """
    global runtime, topology, last_topology, _owner_pid, _epoch, _joined, _meeting
    with _guard:
        if topology is not None:
            if runtime.alive:
                return False
            _epoch = runtime.epoch
            runtime.shutdown()
            stalls.left()
        for wait in _before_leaving if _owner_pid == os.getpid() else []:
            wait()  # for earlier programs, whose operations fail now and would join the next job
        _close_meeting()
        from farandole import _native

        _take_secret()
        departure.watch()
        with _join_settings() as found:
            started = _native.Runtime.start(
                settings=found.settings if found else {},
                secret=found.secret if found else "",
                process_sets=process_sets,
                mpi_ranks=list(mpi_ranks),
                progress=progress,
                set_rules=list(set_rules),
                sets_before=sets_before,
                epoch=_epoch,
                state_generation=state_generation,
            )
        _meeting = found.meeting if found else None
        _joined += 1
        topology = last_topology = Topology(
            rank=started.rank,
            size=started.size,
            local_rank=started.local_rank,
            local_size=started.local_size,
            cross_rank=started.cross_rank,
            cross_size=started.cross_size,
            is_homogeneous=started.is_homogeneous,
        )
        runtime = started
        started.open_to_kernels()
        stalls.joined(started)
        _owner_pid = os.getpid()
        # A job of one process sets no mark: a process that it starts may safely make another such job.
        if started.size > 1 or "HOROVOD_GLOO_RENDEZVOUS_ADDR" in os.environ:
            os.environ[_MEMBER] = f"{_owner_pid} {_native.place_in_environment()}"
        return True


def _take_secret() -> None:
    """Removes the job's secret from the environment, also from Python's copy of it, so that programs that this process
    starts do not inherit it. Later calls of ``init()`` use the value that the native module has stored."""
    from farandole import _native

    if _SECRET in os.environ:
        _native.take_secret_variable()
        del os.environ[_SECRET]


def _join_settings() -> AbstractContextManager[Any]:
    """A context with the arguments that ``Runtime.start`` needs besides the environment in a job of torchrun; None in
    other jobs."""
    from farandole import _native

    described = _native.torch_job()
    if described is None:
        return nullcontext()
    from farandole.common import torchrun

    rank, size, patience_s, patience = described
    return torchrun.join_settings(rank, size, patience_s, patience, _joined)


def _close_meeting() -> None:
    global _meeting
    if _meeting is not None:
        _meeting.close()
        _meeting = None


_before_leaving: List[Callable[[], None]] = []


def call_before_leaving(wait: Callable[[], None]) -> None:
    """Lets a framework that calls operations later complete them: ``join()``, ``shutdown()``, ``init()``, changes of an
    elastic job and the end of the script call ``wait`` first. To be called when the framework has registered its exit
    handlers, which then run after it.
    """
    _before_leaving.append(wait)
    atexit.register(_complete_at_exit, wait)


def complete() -> None:
    """Waits until frameworks have called the operations that the script has asked for. Does nothing in a forked child,
    nor when no job runs."""
    for wait in _before_leaving if is_started() and runtime.usable_here else []:
        wait()


def _complete_at_exit(wait: Callable[[], None]) -> None:
    if is_started() and runtime.usable_here and not departure.has_failed():
        wait()


def stop(script_ended: bool = False) -> None:
    """Leaves the job in order. Does nothing in a forked child, nor when no job runs.

    The other workers are told whether this one called ``shutdown()`` or its script has ended, and by which exception.
    """
    global runtime, topology, _epoch
    if topology is None or os.getpid() != _owner_pid:
        return
    with _guard:
        ending, runtime, topology = runtime, _NotStarted(), None
        os.environ.pop(_MEMBER, None)
        _epoch = ending.epoch
        exception, code = departure.ending() if script_ended else ("", 0)
        ending.shutdown(script_ended=script_ended, exception=exception, code=code)
        stalls.left()
        _close_meeting()


atexit.register(stop, script_ended=True)
