"""Start, shutdown, forks and interrupts of the runtime."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any, List, Optional

import horovod.torch as hvd
import pytest
import torch
import torch.utils.data
from farandole.common import job
from launched import DEADLINE_S, wait_for

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")


def allreduce_works(size: int, name: str) -> bool:
    return bool(hvd.allreduce(torch.ones(3), name=name, op=hvd.Sum).tolist() == [size] * 3)


def test_ranks_are_numbered_as_the_launcher_says(rank: int, size: int) -> None:
    assert rank == int(os.environ.get("HOROVOD_RANK", os.environ.get("OMPI_COMM_WORLD_RANK", "0")))
    assert size == int(os.environ.get("HOROVOD_SIZE", os.environ.get("OMPI_COMM_WORLD_SIZE", "1")))
    assert hvd.local_rank() == int(
        os.environ.get("HOROVOD_LOCAL_RANK", os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", "0"))
    )
    assert hvd.cross_rank() == int(os.environ.get("HOROVOD_CROSS_RANK", "0"))
    assert sorted(hvd.allgather_object(rank)) == list(range(size))
    assert hvd.is_homogeneous()


def test_init_can_be_called_twice(size: int, name: str) -> None:
    hvd.init()
    assert allreduce_works(size, name)


def test_operations_fail_after_each_shutdown_and_work_after_the_next_init(size: int, name: str) -> None:
    for cycle in range(8):
        hvd.shutdown()
        assert not hvd.is_initialized()
        hvd.shutdown()
        for query in (hvd.rank, hvd.size, hvd.local_rank, hvd.local_size, hvd.cross_rank, hvd.cross_size):
            with pytest.raises(ValueError):
                query()
        with pytest.raises(hvd.HorovodInternalError):
            hvd.allreduce(torch.ones(2), name=name)
        with pytest.raises(hvd.HorovodInternalError):
            hvd.barrier()
        with pytest.raises(hvd.HorovodInternalError):
            hvd.alltoall(torch.ones(size), [1] * size, name=name)
        with pytest.raises(hvd.HorovodInternalError):
            hvd.reducescatter(torch.ones(2), name=name)
        hvd.init()
        assert allreduce_works(size, f"{name}.{cycle}") and hvd.size() == size
        # The numbers of unnamed calls start again at the first one.
        assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [size, size]


def test_init_refuses_a_wrong_comm_and_wrong_process_sets(size: int) -> None:
    with pytest.raises(ValueError):
        hvd.init(comm=object())
    with pytest.raises(ValueError):
        hvd.init(process_sets="nonsense")
    with pytest.raises(ValueError):
        hvd.init(process_sets=[[0]])
    with pytest.raises(ValueError):
        hvd.init(process_sets=[hvd.ProcessSet(list(range(size)))])
    assert hvd.is_initialized()
    hvd.init(comm=list(range(size)))


@several_ranks
def test_a_shutdown_of_one_rank_fails_operations_of_the_others(rank: int, size: int, name: str) -> None:
    hvd.barrier()
    if rank == 0:
        hvd.shutdown()
    else:
        with pytest.raises(hvd.ShutdownError):
            # Rank 0 never submits this tensor; the call itself fails if the shutdown is known already.
            hvd.allreduce(torch.ones(2), name=name)
        with pytest.raises(hvd.ShutdownError):
            hvd.allreduce(torch.ones(2), name=f"{name}.later")
    hvd.shutdown()
    hvd.init()
    assert allreduce_works(size, name)


def test_operations_in_flight_fail_at_shutdown(rank: int, size: int, name: str) -> None:
    if size == 1:
        return
    own_name = f"{name}.{rank}"  # no other rank uses this name
    handles = [
        hvd.allreduce_async(torch.ones(2), name=own_name),
        hvd.alltoall_async(torch.ones(size), name=own_name),
        hvd.reducescatter_async(torch.ones(2), name=own_name),
    ]
    hvd.barrier()
    hvd.shutdown()
    for handle in handles:
        with pytest.raises(hvd.ShutdownError):
            hvd.synchronize(handle)
        assert hvd.synchronize(handle) is None
    hvd.init()
    assert allreduce_works(size, name)


# ---- fork ----


class CallingDataset(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """A data set whose items call the library in the worker process of a DataLoader."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        try:
            hvd.allreduce(torch.ones(2), name=f"child.{index}")
        except hvd.HorovodInternalError as problem:
            assert "fork" in str(problem)
            return torch.tensor([index, hvd.rank(), os.getpid()])
        return torch.tensor([-1, -1, -1])


def test_calls_from_data_loader_workers_fail_and_leave_the_job_unaffected(rank: int, size: int, name: str) -> None:
    loader = torch.utils.data.DataLoader(CallingDataset(), batch_size=2, num_workers=2, multiprocessing_context="fork")
    items: List[Any] = []
    for step, batch in enumerate(loader):
        items += batch.tolist()
        assert allreduce_works(size, f"{name}.{step}")
    assert [item[0] for item in items] == list(range(8))
    assert all(item[1] == rank and item[2] != os.getpid() for item in items)
    assert allreduce_works(size, name)


def run_in_child(queue: Any) -> None:
    outcomes = []
    for call in (
        lambda: hvd.allreduce(torch.ones(2)),
        hvd.barrier,
        hvd.join,
        hvd.init,
        lambda: hvd.broadcast_object(1),
    ):
        try:
            call()
            outcomes.append("no error")
        except hvd.HorovodInternalError:
            outcomes.append("refused")
    hvd.shutdown()
    job.stop()  # the exit handler of the interpreter
    queue.put(outcomes)


def test_calls_of_a_forked_child_fail_and_its_exit_leaves_the_job_unaffected(rank: int, size: int, name: str) -> None:
    pending = hvd.allreduce_async(torch.ones(5), name=f"{name}.pending", op=hvd.Sum) if rank == 0 else None
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=run_in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=DEADLINE_S) == ["refused"] * 5
    child.join(DEADLINE_S)
    assert child.exitcode == 0
    if pending is None:
        pending = hvd.allreduce_async(torch.ones(5), name=f"{name}.pending", op=hvd.Sum)
    assert hvd.synchronize(pending).tolist() == [size] * 5
    assert allreduce_works(size, name) and job.runtime.usable_here


# ---- Ctrl-C ----


def signal_in_a_call(number: int, submitted: int) -> None:
    """Sends the main thread a signal when it is inside a call of the library and has submitted so many operations."""
    package, main = str(Path(job.__file__).parents[1]), threading.main_thread().ident
    assert main is not None

    def is_in_the_call() -> bool:
        frame = sys._current_frames()[main]
        return frame.f_code.co_filename.startswith(package) and job.runtime.counters()["submitted"] >= submitted

    def send() -> None:
        if wait_for(is_in_the_call, DEADLINE_S):
            signal.pthread_kill(main, number)

    threading.Thread(target=send, daemon=True).start()


@several_ranks
def test_an_interrupt_ends_the_wait_but_not_the_operation(rank: int, size: int, name: str) -> None:
    class Interrupted(Exception):
        pass

    def on_alarm(number: int, frame: Optional[FrameType]) -> None:
        raise Interrupted

    if rank == 0:
        before = signal.signal(signal.SIGALRM, on_alarm)
        handle = hvd.allreduce_async(torch.ones(4), name=name, op=hvd.Sum)
        submitted = job.runtime.counters()["submitted"]
        with pytest.raises(Interrupted):
            signal_in_a_call(signal.SIGALRM, submitted)
            hvd.synchronize(handle)
        with pytest.raises(Interrupted):
            signal_in_a_call(signal.SIGALRM, submitted + 1)
            hvd.allreduce(torch.ones(2), name=f"{name}.sync")
        signal.signal(signal.SIGALRM, before)
        # This broadcast holds the other ranks back until here.
    hvd.broadcast_object("go on", 0)
    if rank != 0:
        handle = hvd.allreduce_async(torch.ones(4), name=name, op=hvd.Sum)
        hvd.allreduce(torch.ones(2), name=f"{name}.sync")
    assert hvd.synchronize(handle).tolist() == [size] * 4


@several_ranks
@pytest.mark.usefixtures("interruptible")
def test_control_c_interrupts_a_barrier(rank: int, size: int, name: str) -> None:
    if rank == 0:
        with pytest.raises(KeyboardInterrupt):
            signal_in_a_call(signal.SIGINT, job.runtime.counters()["submitted"] + 1)
            hvd.barrier()
        # The barrier is still in progress: the calls of the other ranks complete it.
        hvd.broadcast_object("go on", 0)
    else:
        hvd.broadcast_object("go on", 0)
        hvd.barrier()
    assert allreduce_works(size, name)


@several_ranks
def test_other_threads_run_while_one_waits(rank: int, size: int, name: str) -> None:
    """The other ranks let rank 0 wait until another thread of it has reduced a tensor with them."""

    def reduce_meanwhile(submitted: int) -> None:
        if wait_for(lambda: job.runtime.counters()["submitted"] > submitted, DEADLINE_S):
            hvd.allreduce(torch.ones(2), name=f"{name}.meanwhile")

    if rank == 0:
        other = threading.Thread(target=reduce_meanwhile, args=[job.runtime.counters()["submitted"]])
        other.start()
        hvd.allreduce(torch.ones(2), name=name)
        other.join()
    else:
        meanwhile = hvd.allreduce_async(torch.ones(2), name=f"{name}.meanwhile")
        has_run = wait_for(lambda: hvd.poll(meanwhile), DEADLINE_S)
        hvd.allreduce(torch.ones(2), name=name)
        hvd.synchronize(meanwhile)
        assert has_run


def test_counters_include_submitted_operations(size: int, name: str) -> None:
    before = job.runtime.counters()
    for i in range(5):
        hvd.allreduce(torch.ones(100_000), name=f"{name}.{i}")
    after = job.runtime.counters()
    assert after["submitted"] >= before["submitted"] + 5
