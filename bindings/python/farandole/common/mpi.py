"""Reads a job and its process sets from mpi4py's communicators.

Does not import mpi4py: a caller that has a communicator has imported it.
"""

from __future__ import annotations

import sys
from typing import Any, List, Optional, Sequence


def is_installed() -> bool:
    """Whether this installation can use MPI."""
    from farandole import _native

    return bool(_native.Runtime.mpi_is_installed())


def launched() -> bool:
    """Whether mpirun started this process, and nothing else gathers the job."""
    from farandole import _native

    return bool(_native.launched_by_mpi())


def allows_threads() -> bool:
    """Whether mpi4py, if it has initialized MPI, has done so for several threads."""
    module = sys.modules.get("mpi4py.MPI")
    if module is None or not module.Is_initialized() or module.Is_finalized():
        return True
    return bool(module.Query_thread() == module.THREAD_MULTIPLE)


def require_communicator(what: Any, place: str) -> None:
    """``ValueError`` for anything but a communicator of mpi4py, or where Farandole has no MPI."""
    module = sys.modules.get("mpi4py.MPI")
    if module is None or not isinstance(what, module.Comm):
        raise ValueError(f"{place} is made from a list of ranks or a communicator of mpi4py, not {what!r}")
    if not is_installed():
        raise ValueError(f"{place} is a communicator, and this installation of Farandole has no MPI")


def world_ranks(comm: Any) -> List[int]:
    """Ranks in MPI's world of a communicator's processes, in their order."""
    return _ranks_in(comm, sys.modules["mpi4py.MPI"].COMM_WORLD)


def _ranks_in(comm: Any, whole: Any) -> List[int]:
    group = comm.Get_group()
    numbers = list(group.Translate_ranks(list(range(group.size)), whole.Get_group()))
    if any(number < 0 for number in numbers):
        raise ValueError("the communicator has processes that are not in the one that it is a part of")
    return numbers


def gather_sets(comm: Any, communicators: Sequence[Any]) -> List[List[Optional[List[int]]]]:
    """By rank: the ranks in ``comm`` of each of that process's communicators; None for one that it is not in.

    Collective over ``comm``.
    """
    null = sys.modules["mpi4py.MPI"].COMM_NULL
    own: Any
    try:
        own = [None if each == null else sorted(_ranks_in(each, comm)) for each in communicators]
    except ValueError as problem:
        own = str(problem)  # reported to all ranks, which wait in the allgather below
    gathered: List[Any] = comm.allgather(own)
    for each in gathered:
        if isinstance(each, str):
            raise ValueError(each)
    if len({len(each) for each in gathered}) > 1:
        raise ValueError("init() was given another number of process sets from communicators on different ranks")
    return gathered
