"""Joins jobs that torchrun started: rank 0 serves the rendezvous, and the others read its address in torch's TCPStore.

The store is the one at ``MASTER_ADDR`` and ``MASTER_PORT``. Under torchrun an agent hosts it; where the variables were
set by hand, rank 0 does, as ``torch.distributed.init_process_group`` would, with which it shares the port. torch is
imported here as the launcher's library, not as a framework, and only in such jobs.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Dict, Iterator, Optional

from farandole.common.exceptions import HorovodInternalError

_FIRST_PAUSE_S = 0.01  # between two looks into the store
_LONGEST_PAUSE_S = 0.5
_ENTRY = re.compile(r"(\d{1,3}(?:\.\d{1,3}){3}) (\d{1,5}) ([0-9a-f]{64})?", re.ASCII)


@dataclass
class JoinSettings:
    """The information that a process needs to join its job."""

    settings: Dict[str, str] = field(default_factory=dict)
    secret: str = ""
    """Empty: every rank has been given the job's secret."""
    server: Any = None
    """The rendezvous, on rank 0; a ``farandole._native.RendezvousServer``."""


@dataclass(frozen=True)
class _Job:
    rank: int
    size: int
    patience_s: float
    patience: str

    def key(self, joined: int) -> str:
        """Where rank 0 writes. Differs after a restart of the workers, and from one ``init()`` to the next."""
        run = os.environ.get("TORCHELASTIC_RUN_ID", "")
        restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        return f"farandole/{run}/{restarts}/{self.size}/{joined}"

    def known_host(self) -> str:
        """A host of the job, for rank 0 to choose the address at which it listens; empty: there is one host."""
        if os.environ.get("LOCAL_WORLD_SIZE") == str(self.size):
            return ""
        return os.environ["MASTER_ADDR"]

    def hosts_store(self) -> bool:
        return self.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"


def _refusal(text: str, kind: str = "precondition") -> HorovodInternalError:
    problem = HorovodInternalError(text)
    problem.kind = kind
    return problem


def _store_address() -> str:
    return f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']} (MASTER_ADDR, MASTER_PORT)"


def _open_store(job: _Job, timeout_s: float) -> Any:
    try:
        from torch.distributed import TCPStore
    except ImportError as problem:
        raise _refusal(
            f"this process is rank {job.rank} of {job.size} of a torchrun job (RANK, WORLD_SIZE), and joining it "
            f"needs torch.distributed, which cannot be imported ({problem}): install torch, start the job with "
            "`horovodrun -np N python …`, or set HOROVOD_SIZE=1 if every process is meant to train alone"
        ) from problem
    return TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        is_master=job.hosts_store(),
        timeout=timedelta(seconds=max(timeout_s, 0.1)),
        wait_for_workers=False,
        multi_tenant=True,  # a later init_process_group() of this process may host its store at the same port
    )


def _read(job: _Job, key: str) -> str:
    """Waits for the entry that rank 0 writes, and returns it; ``timed_out`` after the start timeout."""
    end = time.monotonic() + job.patience_s
    store: Optional[Any] = None
    trouble: Optional[Exception] = None
    pause_s = _FIRST_PAUSE_S
    while (left := end - time.monotonic()) > 0:
        try:
            if store is None:
                store = _open_store(job, left)
            # wait() would make torch print a warning whenever it ends in vain, and keep signals from being seen.
            if store.check([key]):
                return str(store.get(key).decode("ascii", "replace"))
            trouble = None
        except HorovodInternalError:
            raise
        except RuntimeError as problem:  # the store went away; rank 0 may host it again
            store, trouble = None, problem
        time.sleep(min(pause_s, left))
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    reason = f" (the store did not answer: {_first_line(trouble)})" if trouble else ""
    raise _refusal(
        f"rank 0 of {job.size} did not announce the job in torch's store at {_store_address()} within the "
        f"{job.patience}{reason}: check that rank 0 was started and calls init()",
        "timed_out",
    )


def _first_line(problem: Exception) -> str:
    return str(problem).split("\n", 1)[0][:200]


@contextmanager
def join_settings(rank: int, size: int, patience_s: float, patience: str, joined: int) -> Iterator[JoinSettings]:
    """Yields the information that ``Runtime.start`` needs to join; ``joined`` counts the jobs before this one.

    When the block ends, all ranks have joined or the job has failed: rank 0 then deletes its entry from the store, so
    that the secret can no longer be read.
    """
    job = _Job(rank, size, patience_s, patience)
    found = JoinSettings({"HOROVOD_RANK": str(rank), "HOROVOD_SIZE": str(size)})
    key = job.key(joined)
    if rank != 0:
        ip, port, secret = _parsed(_read(job, key))
        found.settings.update(HOROVOD_GLOO_RENDEZVOUS_ADDR=ip, HOROVOD_GLOO_RENDEZVOUS_PORT=port)
        found.secret = secret
        yield found
        return
    from farandole import _native

    server = _native.RendezvousServer.start(size, job.known_host())
    try:
        try:
            store = _open_store(job, patience_s)
            store.set(key, f"{server.ip} {server.port} {server.new_secret}")
        except (RuntimeError, ValueError) as problem:
            if isinstance(problem, HorovodInternalError):
                raise
            raise _refusal(
                f"rank 0 cannot announce the job in torch's store at {_store_address()}: {_first_line(problem)}; check "
                "that the address is one of this job and that no other program uses the port"
            ) from problem
        found.settings.update(HOROVOD_GLOO_RENDEZVOUS_ADDR=server.ip, HOROVOD_GLOO_RENDEZVOUS_PORT=str(server.port))
        found.secret, found.server = server.new_secret, server
        try:
            yield found
        finally:
            try:
                store.delete_key(key)
            except RuntimeError:
                pass  # the store is gone, and the key with it
    except BaseException:
        server.close()
        raise


def _parsed(entry: str) -> Any:
    match = _ENTRY.fullmatch(entry)
    if match is None or not _is_address(match.group(1)) or not 0 < int(match.group(2)) < 65536:
        raise _refusal(
            f"torch's store at {_store_address()} holds no address of a rendezvous of this version of Farandole: "
            "install the same version on all hosts"
        )
    return match.group(1), match.group(2), match.group(3) or ""


def _is_address(text: str) -> bool:
    return all(int(part) < 256 for part in text.split("."))
