"""An error fails only its own operation, on every rank and with a helpful message; the job continues."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Tuple

import horovod.torch as hvd
import pytest
import torch
from farandole.common import calls, job
from farandole.torch import submission

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")


def assert_still_works(name: str, size: int) -> None:
    """Checks that an operation under the same name succeeds."""
    assert torch.equal(hvd.allreduce(torch.ones(4), name=name, op=hvd.Sum), torch.full((4,), float(size)))


# The call of all ranks but the last, the call of the last rank, and the words that name the difference.
MISMATCHES: Dict[str, Tuple[Callable[[str], Any], Callable[[str], Any], Tuple[str, str]]] = {
    "dtype": (
        lambda name: hvd.allreduce(torch.ones(4), name=name),
        lambda name: hvd.allreduce(torch.ones(4, dtype=torch.int32), name=name),
        ("float32", "int32"),
    ),
    "shape": (
        lambda name: hvd.allreduce(torch.ones(4, 3), name=name),
        lambda name: hvd.allreduce(torch.ones(3, 4), name=name),
        ("[4, 3]", "[3, 4]"),
    ),
    "dimensions": (
        lambda name: hvd.allreduce(torch.ones(12), name=name),
        lambda name: hvd.allreduce(torch.ones(3, 4), name=name),
        ("[12]", "[3, 4]"),
    ),
    "reduction": (
        lambda name: hvd.allreduce(torch.ones(4), name=name, op=hvd.Sum),
        lambda name: hvd.allreduce(torch.ones(4), name=name, op=hvd.Max),
        ("Sum", "Max"),
    ),
    "prescale": (
        lambda name: hvd.allreduce(torch.ones(4), name=name, prescale_factor=0.5),
        lambda name: hvd.allreduce(torch.ones(4), name=name, prescale_factor=0.25),
        ("0.5", "0.25"),
    ),
    "postscale": (
        lambda name: hvd.allreduce(torch.ones(4), name=name, postscale_factor=0.5),
        lambda name: hvd.allreduce(torch.ones(4), name=name, postscale_factor=0.25),
        ("0.5", "0.25"),
    ),
    "large shape": (
        lambda name: hvd.allreduce(torch.ones(400_000), name=name),
        lambda name: hvd.allreduce(torch.ones(400_001), name=name),
        ("[400000]", "[400001]"),
    ),
    "broadcast shape": (
        lambda name: hvd.broadcast(torch.ones(4), 0, name=name),
        lambda name: hvd.broadcast(torch.ones(5), 0, name=name),
        ("[4]", "[5]"),
    ),
    "root": (
        lambda name: hvd.broadcast(torch.ones(4), 0, name=name),
        lambda name: hvd.broadcast(torch.ones(4), 1, name=name),
        ("0", "1"),
    ),
    "gathered type": (
        lambda name: hvd.allgather(torch.ones(4), name=name),
        lambda name: hvd.allgather(torch.ones(4, dtype=torch.float64), name=name),
        ("float32", "float64"),
    ),
    "gathered row": (
        lambda name: hvd.allgather(torch.ones(4, 3), name=name),
        lambda name: hvd.allgather(torch.ones(4, 5), name=name),
        ("[4, 3]", "[4, 5]"),
    ),
    "gathered dimensions": (
        lambda name: hvd.allgather(torch.ones(4, 3), name=name),
        lambda name: hvd.allgather(torch.ones(4), name=name),
        ("[4, 3]", "[4]"),
    ),
}


@several_ranks
@pytest.mark.parametrize("kind", list(MISMATCHES))
def test_a_mismatch_fails_on_every_rank_and_names_both_values(kind: str, name: str, rank: int, size: int) -> None:
    usual, other, words = MISMATCHES[kind]
    with pytest.raises(hvd.MismatchError) as failed:
        (other if rank == size - 1 else usual)(name)
    assert isinstance(failed.value, hvd.HorovodInternalError) and isinstance(failed.value, ValueError)
    assert failed.value.kind == "mismatch"
    text = str(failed.value)
    assert name in text
    for word in words:
        assert word in text, text
    assert re.search(r"\b0\b", text) and re.search(rf"\b{size - 1}\b", text), text
    assert_still_works(name, size)


@pytest.mark.skipif("os.environ.get('HOROVOD_RANK', '0') != '0'", reason="one rank is enough")
def test_each_kind_of_error_has_its_class() -> None:
    from horovod.common import exceptions

    for kind, error_class in {
        "mismatch": hvd.MismatchError,
        "disconnected": hvd.WorkerLostError,
        "shut down": hvd.ShutdownError,
        "timed out": hvd.OperationTimeoutError,
        "overloaded": hvd.HorovodInternalError,
    }.items():
        problem = exceptions.make_error(kind, "the text")
        assert type(problem) is error_class is getattr(exceptions, error_class.__name__)
        assert isinstance(problem, hvd.HorovodInternalError)
        assert (str(problem), problem.kind, problem.process_set) == ("the text", kind, None)
        if error_class is not hvd.HorovodInternalError:
            assert error_class("raised by a script").kind == kind
    # A process set that failed alone has lost no worker.
    alone = exceptions.make_error("disconnected", "the text", 2)
    assert type(alone) is hvd.HorovodInternalError and (alone.kind, alone.process_set) == ("disconnected", 2)


@several_ranks
def test_a_mismatch_under_a_cached_name_fails_and_the_next_call_succeeds(name: str, rank: int, size: int) -> None:
    for _ in range(3):
        for _ in range(5):
            assert_still_works(name, size)  # the name has an id by now
        with pytest.raises(hvd.HorovodInternalError):
            hvd.allreduce(torch.ones(4 if rank else 5), name=name, op=hvd.Sum)
        assert_still_works(name, size)


@several_ranks
def test_different_operations_under_one_name_fail(name: str, rank: int, size: int) -> None:
    # Public functions prefix names with their operation, so this submits the full name itself.
    from farandole import _native
    from farandole.common import job

    operation = 0 if rank == 0 else 1
    request = _native.Request(operation, "both", hvd.Sum)
    tensor = torch.ones(3)
    handle = job.runtime.submit(request, name, tensor, tensor if operation == 0 else None, 0)
    with pytest.raises(hvd.HorovodInternalError) as failed:
        handle.wait()
    assert "allreduce" in str(failed.value) and "allgather" in str(failed.value)
    assert_still_works(name, size)


@several_ranks
def test_a_failed_operation_does_not_affect_others_in_flight(name: str, rank: int, size: int) -> None:
    good = [hvd.allreduce_async(torch.full((100,), float(i)), name=f"{name}.{i}", op=hvd.Sum) for i in range(10)]
    bad = hvd.allreduce_async(torch.ones(rank + 1), name=f"{name}.bad")
    more = hvd.allreduce_async(torch.ones(50_000), name=f"{name}.more", op=hvd.Sum)
    with pytest.raises(hvd.HorovodInternalError):
        hvd.synchronize(bad)
    assert all(torch.equal(hvd.synchronize(h), torch.full((100,), float(i * size))) for i, h in enumerate(good))
    assert hvd.synchronize(more)[0].item() == size


@several_ranks
def test_a_group_with_a_mismatched_tensor_fails_and_does_not_hang(name: str, rank: int, size: int) -> None:
    tensors = [torch.ones(3), torch.ones(2 + (rank == 0)), torch.ones(4)]
    with pytest.raises(hvd.HorovodInternalError):
        hvd.grouped_allreduce(tensors, name=name)
    assert_still_works(name, size)


@several_ranks
def test_a_name_in_flight_is_refused_at_once(name: str, rank: int, size: int) -> None:
    pending = hvd.allreduce_async(torch.ones(4), name=name, op=hvd.Sum) if rank == 0 else None
    if rank == 0:
        # The other ranks have not called yet, so the first call cannot have ended.
        with pytest.raises(ValueError, match=re.escape(name)):
            hvd.allreduce_async(torch.ones(4), name=name, op=hvd.Sum)
    hvd.barrier()
    if pending is None:
        pending = hvd.allreduce_async(torch.ones(4), name=name, op=hvd.Sum)
    assert torch.equal(hvd.synchronize(pending), torch.full((4,), float(size)))
    assert_still_works(name, size)


@several_ranks
def test_a_group_with_a_name_in_flight_is_refused_as_a_whole(name: str, rank: int, size: int) -> None:
    if rank == 0:
        pending = hvd.grouped_allreduce_async([torch.ones(2), torch.ones(3)], name=name, op=hvd.Sum)
        with pytest.raises(ValueError):
            hvd.grouped_allreduce_async([torch.ones(2), torch.ones(3)], name=name, op=hvd.Sum)
    hvd.barrier()
    if rank != 0:
        pending = hvd.grouped_allreduce_async([torch.ones(2), torch.ones(3)], name=name, op=hvd.Sum)
    assert [result[0].item() for result in hvd.synchronize(pending)] == [size, size]


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128, torch.uint32, torch.uint64], ids=str)
def test_types_that_cannot_be_reduced_are_refused(dtype: torch.dtype, name: str, size: int) -> None:
    tensor = torch.zeros(3, dtype=dtype)
    for call in (hvd.allreduce, hvd.allreduce_, hvd.allreduce_async):
        with pytest.raises(ValueError):
            call(tensor, name=name)
    with pytest.raises(ValueError):
        hvd.grouped_allreduce([torch.ones(3), tensor], name=name)
    assert_still_works(name, size)


@pytest.mark.parametrize("described", [False, True], ids=["table", "description"])
def test_the_runtime_names_unsupported_types_and_the_supported_ones(described: bool, name: str, size: int) -> None:
    """The adapters explain most of these before the runtime has to."""

    def submit(request: Any, tensor: torch.Tensor) -> None:
        is_described = described or not submission.OFFERS_EXCHANGE_TABLE
        given = submission._describe(request.prefix, tensor) if is_described else tensor
        job.runtime.submit(request, name, given, None, 0)

    with pytest.raises(ValueError, match=r"^allreduce does not support torch\.complex64 \(supported: .*float64\)$"):
        submit(calls.reduction(None, hvd.Sum, 1.0, 1.0), torch.zeros(3, dtype=torch.complex64))
    with pytest.raises(ValueError, match=r"^allreduce does not support torch\.bool \(supported: .*float64\)$"):
        submit(calls.reduction(None, hvd.Sum, 1.0, 1.0), torch.zeros(3, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"^allgather does not support torch\.complex64 \(supported: .*bool\)$"):
        submit(calls.allgathers[False], torch.zeros(3, dtype=torch.complex64))
    assert_still_works(name, size)


def test_reductions_refuse_truth_values(name: str, size: int) -> None:
    for call in (hvd.allreduce, hvd.allreduce_, hvd.allreduce_async_):
        with pytest.raises(ValueError, match="bool"):
            call(torch.tensor([True]), name=name)
    assert_still_works(name, size)


def test_tensors_that_are_not_contiguous_are_refused(name: str, size: int) -> None:
    transposed = torch.ones(3, 4).t()
    for call in (hvd.allreduce, hvd.allreduce_, hvd.allreduce_async_, hvd.allgather):
        with pytest.raises(ValueError, match="contiguous"):
            call(transposed, name=name)
    with pytest.raises(ValueError, match="contiguous"):
        hvd.broadcast_(transposed, 0, name=name)
    with pytest.raises(ValueError, match="contiguous"):
        hvd.grouped_allreduce([torch.ones(3), transposed], name=name)
    assert_still_works(name, size)


def test_sparse_and_meta_tensors_are_refused(name: str, size: int) -> None:
    for tensor in (torch.eye(3).to_sparse(), torch.ones(3, device="meta")):
        for call in (hvd.allreduce, hvd.allreduce_, hvd.allgather):
            with pytest.raises(ValueError):
                call(tensor, name=name)
    assert_still_works(name, size)


def test_allgather_refuses_a_scalar(name: str, size: int) -> None:
    with pytest.raises((hvd.HorovodInternalError, ValueError)):
        hvd.allgather(torch.tensor(1.0), name=name)
    assert_still_works(name, size)


def test_a_root_rank_outside_the_job_is_refused(name: str, size: int) -> None:
    for root in (-1, size, 1000):
        with pytest.raises(ValueError):
            hvd.broadcast(torch.ones(2), root, name=name)
    assert_still_works(name, size)


def test_an_unknown_handle_synchronizes_to_none_and_cannot_be_polled(name: str) -> None:
    handle = hvd.allreduce_async(torch.ones(2), name=name)
    hvd.synchronize(handle)
    assert hvd.synchronize(handle) is None
    assert hvd.synchronize(10**9) is None
    for unknown in (handle, 10**9, -1):
        with pytest.raises(ValueError):
            hvd.poll(unknown)


def test_an_unknown_reduction_is_refused(name: str) -> None:
    for op in (-1, 6, 100):
        with pytest.raises(ValueError):
            hvd.allreduce(torch.ones(2), name=name, op=op)


def test_a_process_set_refuses_ranks_that_are_no_list_of_integers() -> None:
    with pytest.raises(ValueError):
        hvd.ProcessSet(["a"])
    with pytest.raises(ValueError):
        hvd.ProcessSet(3)
    assert str(hvd.ProcessSet([2, 0])) == "ProcessSet(process_set_id=None, ranks=[0, 2], mpi_comm=None)"
