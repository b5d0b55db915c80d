"""What is particular to jobs that mpirun started: ``mpirun -np 2 python -m pytest tests/parallel/test_mpi.py``."""

from __future__ import annotations

import os
from typing import Any, Iterator

import horovod.torch as hvd
import pytest
import torch

pytestmark = pytest.mark.skipif("OMPI_COMM_WORLD_RANK" not in os.environ, reason="mpirun did not start this process")


@pytest.fixture
def MPI() -> Any:
    """mpi4py, in the process whose MPI Farandole has initialized."""
    return pytest.importorskip("mpi4py.MPI")


@pytest.fixture
def afresh() -> Iterator[None]:
    """No job before the test, and none of its own after it."""
    hvd.shutdown()
    yield
    hvd.shutdown()


def test_the_job_has_mpis_ranks(rank: int, size: int, MPI: Any) -> None:
    assert (rank, size) == (MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size())
    assert rank == int(os.environ["OMPI_COMM_WORLD_RANK"])
    assert hvd.mpi_built() and hvd.mpi_enabled()
    assert hvd.mpi_threads_supported() == (os.environ.get("HOROVOD_MPI_THREADS_DISABLE", "0") == "0")


@pytest.mark.skipif("os.environ.get('HOROVOD_MPI_THREADS_DISABLE', '0') != '0'", reason="mpi4py has to wait here")
def test_mpi4py_works_beside_operations_in_flight(rank: int, size: int, name: str, MPI: Any) -> None:
    for step in range(20):
        handles = [
            hvd.allreduce_async(torch.full((n,), rank + 1.0), op=hvd.Sum, name=f"{name}.{n}") for n in (3, 70000)
        ]
        assert MPI.COMM_WORLD.allreduce(rank + step) == sum(range(size)) + size * step
        for handle in handles:
            assert (hvd.synchronize(handle) == size * (size + 1) / 2).all()


def test_nothing_goes_by_the_board_when_mpi_is_asked_for(name: str) -> None:
    from farandole.common import job

    for _ in range(4):
        hvd.allreduce(torch.ones(2), name=name)
    forced = "mpi" in (os.environ.get("FARANDOLE_CPU_PATH"), os.environ.get("HOROVOD_CPU_OPERATIONS"))
    assert not forced or job.runtime.counters()["on_fast_path"] == 0


def test_a_job_from_a_communicator(rank: int, size: int, afresh: None, MPI: Any) -> None:
    turned = MPI.COMM_WORLD.Split(color=0, key=-rank)
    hvd.init(comm=turned)
    assert hvd.rank() == size - 1 - rank == turned.Get_rank()
    assert hvd.global_process_set.mpi_comm.Get_size() == size
    rows = hvd.allgather(torch.tensor([rank]))
    assert rows.tolist() == list(reversed(range(size)))


def test_parts_of_a_world_are_jobs_of_their_own(rank: int, size: int, afresh: None, MPI: Any) -> None:
    part = MPI.COMM_WORLD.Split(color=0 if rank == 0 else 1)
    hvd.init(comm=part)
    assert (hvd.rank(), hvd.size()) == (part.Get_rank(), part.Get_size())
    assert hvd.allreduce(torch.tensor([1]), op=hvd.Sum).item() == part.Get_size()


def test_ranks_of_the_world_make_a_job(rank: int, size: int, afresh: None) -> None:
    mine = [0] if rank == 0 else list(range(1, size))
    hvd.init(comm=mine)
    assert hvd.size() == len(mine)
    assert hvd.allreduce(torch.tensor([rank]), op=hvd.Sum).item() == sum(mine)
    hvd.shutdown()
    with pytest.raises(ValueError, match="comm is without it"):
        hvd.init(comm=[(rank + 1) % size])


def test_a_split_registers_each_of_its_parts(rank: int, size: int, afresh: None, MPI: Any) -> None:
    world = MPI.COMM_WORLD
    own = hvd.ProcessSet(world.Split(color=min(rank, 1)))
    assert own.process_set_id is None and own.ranks is None
    hvd.init(comm=world, process_sets=[own])
    parts = [[0], list(range(1, size))]
    assert own.ranks == parts[min(rank, 1)]
    assert own.process_set_id == 1 + min(rank, 1) and own.included()
    assert own.rank() == own.mpi_comm.Get_rank()
    total = hvd.allreduce(torch.tensor([rank]), op=hvd.Sum, process_set=own).item()
    assert total == sum(parts[min(rank, 1)])
    hvd.barrier()  # who leaves ends the job, and its parts may be of different speed


def test_a_process_outside_of_a_communicator_is_in_no_set(rank: int, size: int, afresh: None, MPI: Any) -> None:
    world = MPI.COMM_WORLD
    some = hvd.ProcessSet(world.Split(color=0 if rank > 0 else MPI.UNDEFINED))
    hvd.init(comm=world, process_sets=[some])
    if rank == 0:
        assert some.ranks is None and some.included() is None and some.process_set_id is None
    else:
        assert some.ranks == list(range(1, size))
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=some).item() == size - 1
    hvd.barrier()


def test_communicators_are_for_init_with_a_communicator(afresh: None, MPI: Any) -> None:
    whole = hvd.ProcessSet(MPI.COMM_WORLD)
    with pytest.raises(NotImplementedError):
        hvd.init(process_sets=[whole])
    with pytest.raises(NotImplementedError):
        hvd.init(comm=list(range(MPI.COMM_WORLD.Get_size())), process_sets=[whole])
    hvd.init()
    with pytest.raises(NotImplementedError):
        hvd.add_process_set(hvd.ProcessSet(MPI.COMM_WORLD.Dup()))
    with pytest.raises(ValueError):
        hvd.ProcessSet(7)  # type: ignore[arg-type]
