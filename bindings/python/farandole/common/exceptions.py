"""The exceptions of the interface."""

from __future__ import annotations

from typing import Optional


class HorovodInternalError(RuntimeError):
    """A collective operation failed: ranks disagreed, a rank was lost, or the job was shut down.

    ``kind`` says what to do about it: ``"precondition"`` (tell a human), ``"disconnected"`` (membership changed: roll
    back), ``"dismissed"`` (this process has no place in the job any more), ``"timed out"``, ``"overloaded"`` (wait,
    then retry), ``"aborted"`` or ``"unknown"``.

    ``process_set`` is the number of the set that failed alone, if one did: it can be used again without ``init()``.
    """

    kind: str = "unknown"
    process_set: Optional[int] = None


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
