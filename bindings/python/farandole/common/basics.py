"""Joining and leaving the job, and the place of this process in it; frameworks may have an instance each."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Union

from farandole.common import departure, handles, job, membership, mpi, numbering, set_generations
from farandole.common import process_sets as sets
from farandole.common.exceptions import HorovodInternalError
from farandole.common.process_sets import ProcessSet


def leave() -> None:
    """Leaves the job at once; operations in flight on any rank fail."""
    job.stop()
    sets.forget()


class HorovodBasics:
    """``init()``, ``rank()``, ``size()`` and the queries for features that are built in."""

    Average = 0
    Sum = 1
    Adasum = 2
    Min = 3
    Max = 4
    Product = 5

    HOROVOD_PROCESS_SET_ERROR_INIT = -1
    HOROVOD_PROCESS_SET_ERROR_DYNAMIC = -2
    HOROVOD_PROCESS_SET_ERROR_UNKNOWN_SET = -3
    HOROVOD_PROCESS_SET_ERROR_FOREIGN_SET = -4
    HOROVOD_PROCESS_SET_ERROR_SHUTDOWN = -5
    HOROVOD_PROCESS_SET_ERROR_EXISTING_SET = -6

    def __init__(self, pkg_path: str, *args: str) -> None:
        # Kept for callers that pass them: there is one native module for all frameworks.
        self.pkg_path = pkg_path
        self.args = args

    def init(
        self,
        comm: Optional[Union[Sequence[int], Any]] = None,
        process_sets: Optional[Union[str, Sequence[ProcessSet]]] = None,
    ) -> None:
        """Joins the job that the environment names; a job of one process when it names none.

        ``comm`` may be a list of ranks of MPI's world, which counts only in a job that mpirun started, or a
        communicator of mpi4py, whose processes are then the job. ``process_sets`` lists the sets that are to exist
        besides the global one, the same on all ranks; ``"dynamic"`` allows sets to be added later. With a communicator,
        sets may be made from communicators too: all ranks' are gathered, so that a split registers each of its parts.

        A worker that joins a running elastic job lists the same sets in the same order. A set of ranks then has those
        of its members that are still in the job; a set by rule (``ProcessSet.by_rule``) is evaluated anew.
        """
        by_list = comm is None or isinstance(comm, (list, tuple, range))
        if not by_list:
            mpi.require_communicator(comm, "comm")
        if isinstance(process_sets, str):
            if process_sets.lower() != "dynamic":
                raise ValueError(f"process_sets is a list of ProcessSet or 'dynamic', not {process_sets!r}")
            os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
            process_sets = None
        job.refuse_in_child()
        static_sets = list(process_sets or [])
        if any(not isinstance(each, ProcessSet) for each in static_sets):
            raise ValueError(f"process_sets is a list of ProcessSet or 'dynamic', not {process_sets!r}")
        if by_list and any(each.mpi_comm is not None for each in static_sets):
            raise NotImplementedError("process sets can be made from communicators only if comm is one")
        if any(each.rule for each in static_sets) and any(each.mpi_comm is not None for each in static_sets):
            raise NotImplementedError("process sets by rule cannot be given together with some from communicators")
        mpi_ranks = list(comm or []) if by_list and mpi.launched() else [] if by_list else mpi.world_ranks(comm)
        wanted = sets.wanted_ranks(static_sets, comm)
        rules, before = set_generations.rules_of(static_sets), set_generations.carried()
        try:
            asked = [sets.asking(each) for each in rules]
            sets_before = before.sets if before else None
            if job.start(wanted, mpi_ranks, membership.progress, asked, sets_before, membership.state_generation):
                sets.forget()
                set_generations.enter(static_sets, rules)
                handles.pending_handles.clear()  # calls of the previous job: the new job numbers its calls anew
                numbering.begin_anew()
                membership.joined()
                if not by_list:
                    sets.global_process_set.mpi_comm = comm.Dup()  # type: ignore[union-attr]
        except HorovodInternalError as problem:
            if problem.kind in ("disconnected", "dismissed"):  # members have changed: the elastic loop handles it
                raise
            raise ValueError(f"Farandole could not be initialized: {problem}") from problem
        sets.register(job.where(), static_sets)

    def shutdown(self) -> None:
        """Leaves the job when programs of JAX and MXNet's engine have run, or at once when the script has failed or the
        caller handles an exception of its own; other operations in flight on any rank fail. Allows a later ``init()``.
        """
        if not departure.has_failed(sys._getframe().f_back):  # else others may never call what this process waits for
            job.complete()
        leave()

    def is_initialized(self) -> bool:
        """Whether ``init()`` has been called, and ``shutdown()`` not since."""
        return job.is_started()

    def start_timeline(self, file_path: str, mark_cycles: bool = False) -> None:
        """Writes a timeline of all operations to this file from now on, on rank 0 only; all ranks may make the call.

        The file that was written before is completed first, unless it has the same path: then nothing changes.
        Problems with the file are logged. ``mark_cycles`` shows when fused operations start. ``ValueError`` if
        ``HOROVOD_TIMELINE`` was not set before ``init()``; ``DYNAMIC`` writes nothing until this call.
        """
        job.where()
        job.runtime.start_timeline(os.fspath(file_path), mark_cycles)

    def stop_timeline(self) -> None:
        """Completes the file of the timeline: it has all operations that ended before the call."""
        job.where()
        job.runtime.stop_timeline()

    def mark_step(self) -> None:
        """Records that a training step ends here, for ``farandole report``; every rank marks the same steps.

        Call it once at the end of each step. Without it, the report finds the steps by the names of tensors that recur.
        """
        job.where()
        job.runtime.mark_step()

    def size(self) -> int:
        """Processes in the job."""
        return job.where().size

    def max_size(self) -> int:
        """The most processes that the job may come to have: ``FARANDOLE_MAX_NP``, or ``size()`` without it."""
        return membership.max_size(self.size())

    def local_size(self) -> int:
        """Processes of the job on this host."""
        return job.where().local_size

    def cross_size(self) -> int:
        """Hosts that have a process with this one's local rank."""
        return job.where().cross_size

    def rank(self) -> int:
        """This process's number in the job, from 0."""
        return job.where().rank

    def local_rank(self) -> int:
        """This process's number on its host, from 0."""
        return job.where().local_rank

    def cross_rank(self) -> int:
        """This host's number among those that have a process with this one's local rank."""
        return job.where().cross_rank

    def is_homogeneous(self) -> bool:
        """Whether every host has equally many processes."""
        return job.topology is not None and job.topology.is_homogeneous

    def mpi_threads_supported(self) -> bool:
        """Whether other threads may call MPI beside Farandole; ``ValueError`` in a job without MPI."""
        job.where()
        if not job.runtime.has_mpi:
            raise ValueError("MPI is not enabled: neither did mpirun start this job, nor is the mpi path asked for")
        return bool(job.runtime.mpi_threads) and mpi.allows_threads()

    def mpi_enabled(self) -> bool:
        """Whether MPI can connect the processes of the job, as mpirun started them, or moves their tensors."""
        return bool(job.runtime.has_mpi)

    def mpi_built(self) -> bool:
        """Whether MPI is built in."""
        return mpi.is_installed()

    def gloo_enabled(self) -> bool:
        """Whether processes connect without MPI; always so."""
        return True

    def gloo_built(self) -> bool:
        """Whether processes can be launched without MPI; always so."""
        return True

    def nccl_built(self) -> int:
        """The version code of the NCCL that moves tensors in GPU memory, such as 22809; 0 if this build can use none,
        or finds none."""
        from farandole import _native

        return _native.nccl_version()

    def ddl_built(self) -> bool:
        """Whether IBM DDL is built in."""
        return False

    def ccl_built(self) -> bool:
        """Whether oneCCL is built in."""
        from farandole import _native

        return Path(str(_native.__file__)).with_name("libfarandole_ccl.so").exists()

    def cuda_built(self) -> bool:
        """Whether this build takes tensors in the memory of CUDA devices."""
        from farandole import _native

        return _native.devices_are_built_in()

    def rocm_built(self) -> bool:
        """Whether ROCm is built in."""
        return False

    def _get_process_set_ids_and_ranks(self) -> Dict[int, List[int]]:
        """The global ranks of every process set, by its number. Scripts ask ``hvd.mpi_ops._basics`` for it."""
        return sets.get_process_set_ids_and_ranks()
