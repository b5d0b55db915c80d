"""The exceptions of the interface."""

from __future__ import annotations

from typing import Dict, Optional, Type


class HorovodInternalError(RuntimeError):
    """A collective operation failed. The classes derived from this one tell the usual causes apart.

    ``kind`` says the same as the class, and tells more causes apart: ``"mismatch"`` (``MismatchError``),
    ``"disconnected"`` (``WorkerLostError``), ``"shut down"`` (``ShutdownError``), ``"timed out"``
    (``OperationTimeoutError``), ``"precondition"`` (something has to be set right first, ``init()`` for example),
    ``"dismissed"`` (this process has no place in the job any more), ``"overloaded"`` (wait, then retry), ``"aborted"``,
    ``"unimplemented"`` or ``"unknown"``.

    ``process_set`` is the number of the set that failed alone, if one did: no worker was lost then, and the set can be
    used again without ``init()``.
    """

    kind: str = "unknown"
    process_set: Optional[int] = None
    consequence: bool = False
    """Whether another worker's end made this call fail: this worker is not at fault."""


class MismatchError(HorovodInternalError, ValueError):
    """The ranks asked for different things under one name: another shape, dtype, operation, root or scale.

    The script is at fault: the same call fails again. The job goes on, and the name can be used again.
    """

    kind = "mismatch"


class WorkerLostError(HorovodInternalError):
    """A worker ended, or could not be reached any more, while the operation needed it.

    The job of this worker has ended too. The elastic loop goes back to the last commit and continues with those that
    are left.
    """

    kind = "disconnected"


class ShutdownError(HorovodInternalError):
    """The job was shut down before the operation was complete, by this worker or by another one."""

    kind = "shut down"


class OperationTimeoutError(HorovodInternalError):
    """The operation was not complete at a deadline; the message names the setting that says so."""

    kind = "timed out"


KINDS = (
    *("precondition", "invalid argument", "unknown", "aborted", "disconnected", "overloaded"),
    *("unimplemented", "timed out", "dismissed", "mismatch", "shut down"),
)
"""As ``messages/values/error.hpp`` names them."""

_CLASSES: Dict[str, Type[HorovodInternalError]] = {
    each.kind: each for each in (MismatchError, WorkerLostError, ShutdownError, OperationTimeoutError)
}


def make_error(kind: str, text: str, process_set: Optional[int] = None) -> HorovodInternalError:
    """The exception for an error of the native runtime.

    :param kind: as ``messages/values/error.hpp`` names it
    :param process_set: the number of the set that failed alone; None or 0 if none did
    """
    # A process set that failed alone has lost a part of itself, and no worker.
    error_class = HorovodInternalError if process_set else _CLASSES.get(kind, HorovodInternalError)
    problem = error_class(text)
    problem.kind = kind
    problem.process_set = process_set or None
    return problem


FAULTS_OF_THE_CALL = ("mismatch", "invalid argument", "unimplemented", "precondition")
"""Kinds of errors that come back however often the same call is tried: the script has to be changed."""


def is_fault_of_the_call(problem: HorovodInternalError) -> bool:
    """Whether the script is at fault, and not the loss of a worker."""
    return problem.kind in FAULTS_OF_THE_CALL


class HostsUpdatedInterrupt(RuntimeError):
    """Hosts joined or left; raised at a commit, so nothing is lost."""

    def __init__(self, skip_sync: bool) -> None:
        super().__init__(skip_sync)
        self.skip_sync = skip_sync


def get_version_mismatch_message(name: str, version: str, installed_version: Optional[str]) -> str:
    """Says which version of a framework was expected and which one is there."""
    return f"Farandole was built for {name} {version}, but {name} {installed_version} is installed."


class HorovodVersionMismatchError(ImportError):
    """A framework's version is not the one that a piece was built for."""

    def __init__(self, name: str, version: str, installed_version: Optional[str]) -> None:
        super().__init__(get_version_mismatch_message(name, version, installed_version))
        self.name = name
        self.version = version
        self.installed_version = installed_version
