"""Tests of jobs that mpirun started: ``mpirun -np 2 python -m pytest tests/parallel/test_mpi.py``."""

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
def no_job() -> Iterator[None]:
    """Shuts the job down before the test, and the job of the test after it."""
    hvd.shutdown()
    yield
    hvd.shutdown()


def test_ranks_and_size_are_those_of_the_world_communicator(rank: int, size: int, MPI: Any) -> None:
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


def test_the_fast_path_is_unused_when_the_mpi_path_is_selected(name: str) -> None:
    from farandole.common import job

    for _ in range(4):
        hvd.allreduce(torch.ones(2), name=name)
    forced = "mpi" in (os.environ.get("FARANDOLE_CPU_PATH"), os.environ.get("HOROVOD_CPU_OPERATIONS"))
    assert not forced or job.runtime.counters()["on_fast_path"] == 0


def test_init_takes_its_ranks_from_a_communicator(rank: int, size: int, no_job: None, MPI: Any) -> None:
    turned = MPI.COMM_WORLD.Split(color=0, key=-rank)
    hvd.init(comm=turned)
    assert hvd.rank() == size - 1 - rank == turned.Get_rank()
    assert hvd.global_process_set.mpi_comm.Get_size() == size
    rows = hvd.allgather(torch.tensor([rank]))
    assert rows.tolist() == list(reversed(range(size)))


def test_parts_of_a_split_communicator_form_separate_jobs(rank: int, size: int, no_job: None, MPI: Any) -> None:
    part = MPI.COMM_WORLD.Split(color=0 if rank == 0 else 1)
    hvd.init(comm=part)
    assert (hvd.rank(), hvd.size()) == (part.Get_rank(), part.Get_size())
    assert hvd.allreduce(torch.tensor([1]), op=hvd.Sum).item() == part.Get_size()


def test_init_with_a_list_of_world_ranks_forms_a_job_of_them(rank: int, size: int, no_job: None) -> None:
    own_ranks = [0] if rank == 0 else list(range(1, size))
    hvd.init(comm=own_ranks)
    assert hvd.size() == len(own_ranks)
    assert hvd.allreduce(torch.tensor([rank]), op=hvd.Sum).item() == sum(own_ranks)
    hvd.shutdown()
    with pytest.raises(ValueError, match="comm is without it"):
        hvd.init(comm=[(rank + 1) % size])


def test_a_process_set_of_a_split_communicator_registers_each_part(
    rank: int, size: int, no_job: None, MPI: Any
) -> None:
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
    hvd.barrier()  # a rank that leaves ends the job, and its parts may run at different speeds


def test_a_rank_outside_the_communicator_of_a_process_set_has_no_set(
    rank: int, size: int, no_job: None, MPI: Any
) -> None:
    world = MPI.COMM_WORLD
    some = hvd.ProcessSet(world.Split(color=0 if rank > 0 else MPI.UNDEFINED))
    hvd.init(comm=world, process_sets=[some])
    if rank == 0:
        assert some.ranks is None and some.included() is None and some.process_set_id is None
    else:
        assert some.ranks == list(range(1, size))
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=some).item() == size - 1
    hvd.barrier()


def test_a_process_set_of_a_communicator_is_refused_unless_init_gets_one(no_job: None, MPI: Any) -> None:
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
