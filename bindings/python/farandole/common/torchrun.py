"""Joins jobs that torchrun started: the ranks meet in torch's TCPStore, where rank 0 publishes the rendezvous.

The store is the one at ``MASTER_ADDR`` and ``MASTER_PORT``. Under torchrun an agent hosts it; where the variables were
set by hand, rank 0 does, as ``torch.distributed.init_process_group`` would, with which it shares the port. torch is
imported here as the launcher's library, not as a framework, and only in such jobs.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Dict, Iterator, Optional

from farandole.common.exceptions import HorovodInternalError

_FIRST_PAUSE_S = 0.01  # between two looks into the store
_LONGEST_PAUSE_S = 0.5


@dataclass
class JoinSettings:
    """The information that a process needs to join its job."""

    settings: Dict[str, str] = field(default_factory=dict)
    secret: str = ""
    """Empty: every rank has been given the job's secret."""
    meeting: Any = None
    """A ``farandole._native.StoreMeeting``, which serves the rendezvous on rank 0."""


def _refusal(text: str, kind: str = "precondition") -> HorovodInternalError:
    problem = HorovodInternalError(text)
    problem.kind = kind
    return problem


def _store_address() -> str:
    return f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']} (MASTER_ADDR, MASTER_PORT)"


class _Store:
    """The values of all ranks in torch's store; ``StoreMeeting`` calls ``put`` and ``get``."""

    def __init__(self, rank: int, size: int, patience_s: float, patience: str) -> None:
        self._rank, self._size = rank, size
        self._patience = patience
        self._end = time.monotonic() + patience_s
        self._store: Optional[Any] = None
        self._own: Dict[str, str] = {}

    def _key(self, rank: int, name: str) -> str:
        """Differs after a restart of the workers."""
        run = os.environ.get("TORCHELASTIC_RUN_ID", "")
        restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        return f"farandole/{run}/{restarts}/{self._size}/{name}.{rank}"

    def _is_host(self) -> bool:
        return self._rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"

    def _opened(self) -> Any:
        if self._store is None:
            try:
                from torch.distributed import TCPStore
            except ImportError as problem:
                raise _refusal(
                    f"this process is rank {self._rank} of {self._size} of a torchrun job (RANK, WORLD_SIZE), and "
                    f"joining it needs torch.distributed, which cannot be imported ({problem}): install torch, start "
                    "the job with `horovodrun -np N python …`, or set HOROVOD_SIZE=1 if every process is meant to "
                    "train alone"
                ) from problem
            store = TCPStore(
                os.environ["MASTER_ADDR"],
                int(os.environ["MASTER_PORT"]),
                is_master=self._is_host(),
                timeout=timedelta(seconds=max(self._end - time.monotonic(), 0.1)),
                wait_for_workers=False,
                multi_tenant=True,  # a later init_process_group() of this process may host its store at the same port
            )
            for key, value in self._own.items():  # a store that went away had them
                store.set(key, value)
            self._store = store
        return self._store

    def put(self, name: str, value: str) -> None:
        """Writes a value of this rank."""
        key = self._key(self._rank, name)
        try:
            self._opened().set(key, value)
        except HorovodInternalError:
            raise
        except (RuntimeError, ValueError) as problem:
            if self._rank == 0:
                raise _refusal(
                    f"rank 0 cannot announce the job in torch's store at {_store_address()}: {_first_line(problem)}; "
                    "check that the address is one of this job and that no other program uses the port"
                ) from problem
            self._store = None  # rank 0 may host it later, or again
        self._own[key] = value

    def get(self, rank: int, name: str) -> str:
        """Waits for a value of any rank; "timed out" after the start timeout."""
        key = self._key(rank, name)
        if key in self._own:
            return self._own[key]
        trouble: Optional[Exception] = None
        pause_s = _FIRST_PAUSE_S
        while (left := self._end - time.monotonic()) > 0:
            try:
                store = self._opened()
                # wait() would make torch print a warning whenever it ends in vain, and keep signals from being seen.
                if store.check([key]):
                    return str(store.get(key).decode("ascii", "replace"))
                trouble = None
            except HorovodInternalError:
                raise
            except RuntimeError as problem:  # the store went away; rank 0 may host it again
                self._store, trouble = None, problem
            time.sleep(min(pause_s, left))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        reason = f" (the store did not answer: {_first_line(trouble)})" if trouble else ""
        raise _refusal(
            f"rank {rank} of {self._size} did not announce {'the job' if rank == 0 else 'its host'} in torch's store "
            f"at {_store_address()} within the {self._patience}{reason}: check that rank {rank} was started and calls "
            "init()",
            "timed out",
        )

    def remove_own(self) -> None:
        """Deletes the values of this rank, so that the secret can no longer be read."""
        if self._store is None:
            return
        for key in self._own:
            with suppress(RuntimeError):  # the store is gone, and the key with it
                self._store.delete_key(key)


def _first_line(problem: Exception) -> str:
    return str(problem).split("\n", 1)[0][:200]


@contextmanager
def join_settings(rank: int, size: int, patience_s: float, patience: str, joined: int) -> Iterator[JoinSettings]:
    """Yields the information that ``Runtime.start`` needs to join; ``joined`` counts the jobs before this one.

    When the block ends, all ranks have joined or the job has failed: rank 0 then deletes its values from the store, of
    which one is the secret.
    """
    from farandole import _native

    store = _Store(rank, size, patience_s, patience)
    meeting = None
    try:
        meeting = _native.StoreMeeting.hold(store, rank, size, joined)
        yield JoinSettings(
            {
                "HOROVOD_RANK": str(rank),
                "HOROVOD_SIZE": str(size),
                "HOROVOD_GLOO_RENDEZVOUS_ADDR": meeting.ip,
                "HOROVOD_GLOO_RENDEZVOUS_PORT": str(meeting.port),
            },
            meeting.new_secret,
            meeting,
        )
    except BaseException:
        if meeting is not None:
            meeting.close()
        raise
    finally:
        if rank == 0:
            store.remove_own()
