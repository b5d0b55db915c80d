"""Errors of alltoall and reducescatter: each fails alone with a helpful message.

Later operations work, also under the same name.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Tuple, Type

import horovod.torch as hvd
import pytest
import torch

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")


def check_later_operations_work(name: str, rank: int, size: int) -> None:
    """Later operations work, also under the same name."""
    assert hvd.allreduce(torch.ones(4), name=name, op=hvd.Sum).tolist() == [size] * 4
    assert hvd.alltoall(torch.full((size,), rank), name=name).tolist() == list(range(size))
    received, counts = hvd.alltoall(torch.full((2 * size,), rank), [2] * size, name=name)
    assert counts.tolist() == [2] * size and received.tolist() == [row // 2 for row in range(2 * size)]
    assert hvd.reducescatter(torch.ones(size), name=name, op=hvd.Sum).tolist() == [size]
    assert [share.tolist() for share in hvd.grouped_reducescatter([torch.ones(size)], name=name)] == [[1]]


def rows(*row: int, **options: Any) -> torch.Tensor:
    return torch.ones(hvd.size(), *row, **options)


# The call of all ranks but the last, the call of the last rank, and the words of the error that distinguish them.
MISMATCHES: Dict[str, Tuple[Callable[[str], Any], Callable[[str], Any], Tuple[str, str]]] = {
    "alltoall dtype": (
        lambda name: hvd.alltoall(rows(), name=name),
        lambda name: hvd.alltoall(rows(dtype=torch.int32), name=name),
        ("float32", "int32"),
    ),
    "alltoall row": (
        lambda name: hvd.alltoall(rows(3), name=name),
        lambda name: hvd.alltoall(rows(5), name=name),
        (", 3]", ", 5]"),
    ),
    "alltoall dimensions": (
        lambda name: hvd.alltoall(rows(3), name=name),
        lambda name: hvd.alltoall(rows(3, 1), name=name),
        (", 3]", ", 3, 1]"),
    ),
    "reducescatter dtype": (
        lambda name: hvd.reducescatter(rows(), name=name),
        lambda name: hvd.reducescatter(rows(dtype=torch.float64), name=name),
        ("float32", "float64"),
    ),
    "reducescatter rows": (
        lambda name: hvd.reducescatter(torch.ones(40, 3), name=name),
        lambda name: hvd.reducescatter(torch.ones(41, 3), name=name),
        ("[40, 3]", "[41, 3]"),
    ),
    "reducescatter row": (
        lambda name: hvd.reducescatter(torch.ones(40, 3), name=name),
        lambda name: hvd.reducescatter(torch.ones(40, 4), name=name),
        ("[40, 3]", "[40, 4]"),
    ),
    "reducescatter dimensions": (
        lambda name: hvd.reducescatter(torch.ones(12), name=name),
        lambda name: hvd.reducescatter(torch.ones(12, 1), name=name),
        ("[12]", "[12, 1]"),
    ),
    "reducescatter reduction": (
        lambda name: hvd.reducescatter(rows(), name=name, op=hvd.Sum),
        lambda name: hvd.reducescatter(rows(), name=name, op=hvd.Max),
        ("Sum", "Max"),
    ),
    "reducescatter prescale": (
        lambda name: hvd.reducescatter(rows(), name=name, prescale_factor=0.5),
        lambda name: hvd.reducescatter(rows(), name=name, prescale_factor=0.25),
        ("0.5", "0.25"),
    ),
    "reducescatter postscale": (
        lambda name: hvd.reducescatter(rows(), name=name, postscale_factor=0.5),
        lambda name: hvd.reducescatter(rows(), name=name, postscale_factor=0.25),
        ("0.5", "0.25"),
    ),
    "reducescatter member": (
        lambda name: hvd.grouped_reducescatter([torch.ones(3), torch.ones(4)], name=name),
        lambda name: hvd.grouped_reducescatter([torch.ones(3), torch.ones(5)], name=name),
        ("[4]", "[5]"),
    ),
}


@several_ranks
@pytest.mark.parametrize("agreed", [False, True])
@pytest.mark.parametrize("kind", list(MISMATCHES))
def test_a_mismatch_fails_on_every_rank_and_names_both_values(
    kind: str, agreed: bool, name: str, rank: int, size: int
) -> None:
    usual, other, words = MISMATCHES[kind]
    for _ in range(3 if agreed else 0):
        usual(name)
    with pytest.raises(hvd.HorovodInternalError) as failed:
        (other if rank == size - 1 else usual)(name)
    text = str(failed.value)
    assert name in text
    for word in words:
        assert word in text, text
    assert re.search(r"\b0\b", text) and re.search(rf"\b{size - 1}\b", text), text
    check_later_operations_work(name, rank, size)


@several_ranks
@pytest.mark.parametrize("first, second", [("allgather", "alltoall"), ("allreduce", "reducescatter")])
def test_different_operations_under_one_name_fail(first: str, second: str, name: str, rank: int, size: int) -> None:
    # The public functions add a prefix for each operation, so the test submits requests with equal full names.
    from farandole import _native
    from farandole.common import job, operations

    called = first if rank == 0 else second
    request = _native.Request(getattr(operations, called.upper()), "both", hvd.Sum)
    outputs = {"allreduce": torch.ones(size), "reducescatter": torch.ones(1)}
    handle = job.runtime.submit(request, name, torch.ones(size), outputs.get(called), 0)
    with pytest.raises(hvd.HorovodInternalError) as failed:
        handle.wait()
    assert first in str(failed.value) and second in str(failed.value)
    check_later_operations_work(name, rank, size)


@several_ranks
def test_a_failed_operation_does_not_fail_others_in_flight(name: str, rank: int, size: int) -> None:
    good = [hvd.alltoall_async(torch.full((size,), i), name=f"{name}.{i}") for i in range(10)]
    shares = [hvd.reducescatter_async(torch.full((size,), i), name=f"{name}.{i}", op=hvd.Sum) for i in range(10)]
    bad = hvd.alltoall_async(torch.ones(size, rank + 1), name=f"{name}.bad")
    worse = hvd.reducescatter_async(torch.ones(rank + 1), name=f"{name}.bad")
    more = hvd.alltoall_async(torch.ones(size, 50_000), name=f"{name}.more")
    for handle in (bad, worse):
        with pytest.raises(hvd.HorovodInternalError):
            hvd.synchronize(handle)
    assert all(hvd.synchronize(handle)[0].tolist() == [i] * size for i, handle in enumerate(good))
    assert all(hvd.synchronize(handle).tolist() == [i * size] for i, handle in enumerate(shares))
    assert torch.equal(hvd.synchronize(more)[0], torch.ones(size, 50_000))


# ---- calls that are refused at once ----

BAD_SPLITS: Dict[str, Tuple[Callable[[int], Any], str]] = {
    "float": (torch.ones, "int32"),
    "two dimensions": (lambda size: torch.ones(size, 1, dtype=torch.int32), "one dimension"),
    "lists in a list": (lambda size: [[1] * size], "whole numbers"),
    "fractions": (lambda size: [1.0] * size, "whole numbers"),
    "one too few": (lambda size: torch.full((size - 1,), 1, dtype=torch.int32) if size > 1 else [1, 0], "splits"),
    "one too many": (lambda size: [1] * (size + 1), "splits"),
    "too small a sum": (lambda size: [1] * (size - 1) + [0], "sum"),
    "too great a sum": (lambda size: [1] * (size - 1) + [2], "sum"),
    "negative": (lambda size: [size + 1] + [0] * (size - 2) + [-1] if size > 1 else [-1], "negative"),
}


@pytest.mark.parametrize("kind", list(BAD_SPLITS))
def test_bad_splits_are_refused(kind: str, name: str, rank: int, size: int) -> None:
    make, words = BAD_SPLITS[kind]
    for call in (hvd.alltoall, hvd.alltoall_async):
        with pytest.raises(ValueError, match=words):
            call(torch.ones(size), make(size), name=name)
    check_later_operations_work(name, rank, size)


def test_the_error_of_a_wrong_sum_of_splits_names_both_numbers(name: str, rank: int, size: int) -> None:
    with pytest.raises(ValueError, match=rf"\b{7 * size}\b.*\b{9 * size}\b"):
        hvd.alltoall(torch.ones(9 * size), [7] * size, name=name)
    check_later_operations_work(name, rank, size)


@several_ranks
def test_rows_that_do_not_divide_evenly_are_refused_without_splits(name: str, rank: int, size: int) -> None:
    for call in (hvd.alltoall, hvd.alltoall_async):
        with pytest.raises(ValueError, match=rf"\b{size + 1}\b.*\b{size}\b"):
            call(torch.ones(size + 1), name=name)
    check_later_operations_work(name, rank, size)


@several_ranks
def test_a_rank_whose_call_was_refused_can_call_again(name: str, rank: int, size: int) -> None:
    if rank == 0:
        with pytest.raises(ValueError):
            hvd.alltoall(torch.ones(size), [size + 1] + [0] * (size - 1), name=name)
        with pytest.raises(ValueError):
            hvd.alltoall(torch.ones(size), [size + 1] + [0] * (size - 1))
    assert hvd.alltoall(torch.full((size,), rank)).tolist() == list(range(size))
    check_later_operations_work(name, rank, size)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128, torch.uint32, torch.uint64], ids=str)
def test_types_that_cannot_be_reduced_are_refused(dtype: torch.dtype, name: str, rank: int, size: int) -> None:
    tensor = torch.zeros(size, dtype=dtype)
    for call in (hvd.reducescatter, hvd.reducescatter_async):
        with pytest.raises(ValueError):
            call(tensor, name=name)
    for grouped in (hvd.grouped_reducescatter, hvd.grouped_reducescatter_async):
        with pytest.raises(ValueError):
            grouped([torch.ones(size), tensor], name=name)
    check_later_operations_work(name, rank, size)


def test_reducescatter_of_bool_is_refused(name: str, rank: int, size: int) -> None:
    for call in (hvd.reducescatter, hvd.reducescatter_async):
        with pytest.raises(ValueError, match="bool"):
            call(torch.tensor([True]), name=name)
    with pytest.raises(ValueError, match="bool"):
        hvd.grouped_reducescatter([torch.ones(3), torch.tensor([True])], name=name)
    check_later_operations_work(name, rank, size)


def test_tensors_that_are_not_contiguous_are_refused(name: str, rank: int, size: int) -> None:
    transposed = torch.ones(3, 2 * size).t()
    for call in (hvd.alltoall, hvd.alltoall_async, hvd.reducescatter, hvd.reducescatter_async):
        with pytest.raises(ValueError, match="contiguous"):
            call(transposed, name=name)
    with pytest.raises(ValueError, match="contiguous"):
        hvd.grouped_reducescatter([torch.ones(3), transposed], name=name)
    check_later_operations_work(name, rank, size)


def test_sparse_and_meta_tensors_are_refused(name: str, rank: int, size: int) -> None:
    for tensor in (torch.eye(size).to_sparse(), torch.ones(size, device="meta")):
        for call in (hvd.alltoall, hvd.reducescatter):
            with pytest.raises(ValueError):
                call(tensor, name=name)
    check_later_operations_work(name, rank, size)


def test_scalars_are_refused(name: str, rank: int, size: int) -> None:
    with pytest.raises(hvd.HorovodInternalError, match="alltoall"):
        hvd.alltoall(torch.tensor(1.0), name=name)
    for call in (hvd.reducescatter, hvd.reducescatter_async):
        with pytest.raises(ValueError, match="scalar"):
            call(torch.tensor(1.0), name=name)
    with pytest.raises(ValueError, match="scalar"):
        hvd.grouped_reducescatter([torch.ones(2), torch.tensor(1.0)], name=name)
    check_later_operations_work(name, rank, size)


@pytest.mark.parametrize("op, word", [(hvd.Adasum, "Adasum"), (6, "6"), (-1, "-1")])
def test_reducescatter_with_an_unsupported_reduction_is_refused(
    op: int, word: str, name: str, rank: int, size: int
) -> None:
    error: Type[Exception] = hvd.HorovodInternalError
    for call in (hvd.reducescatter, hvd.reducescatter_async):
        with pytest.raises(error, match=word) as failed:
            call(torch.ones(2), name=name, op=op)
        assert failed.value.kind == "unimplemented"  # type: ignore[attr-defined]
    for grouped in (hvd.grouped_reducescatter, hvd.grouped_reducescatter_async):
        with pytest.raises(error, match=word):
            grouped([torch.ones(2)], name=name, op=op)
    check_later_operations_work(name, rank, size)


@several_ranks
@pytest.mark.parametrize("operation", ["alltoall", "reducescatter", "grouped_reducescatter"])
def test_a_name_in_flight_is_refused_at_once(operation: str, name: str, rank: int, size: int) -> None:
    def begin() -> int:
        if operation == "grouped_reducescatter":
            return hvd.grouped_reducescatter_async([torch.ones(size), torch.ones(size)], name=name)
        if operation == "reducescatter":
            return hvd.reducescatter_async(torch.ones(size), name=name)
        return hvd.alltoall_async(torch.ones(size), name=name)

    pending = begin() if rank == 0 else None
    if rank == 0:
        # The other ranks have not called yet, so the first operation is still in flight.
        with pytest.raises(ValueError, match=re.escape(name)):
            begin()
    hvd.barrier()
    result = hvd.synchronize(begin() if pending is None else pending)
    assert result[0].tolist() == {"alltoall": [1] * size, "reducescatter": 1}.get(operation, [1])
    check_later_operations_work(name, rank, size)


def test_unregistered_process_sets_are_refused(name: str, rank: int, size: int) -> None:
    unregistered = hvd.ProcessSet([0])
    for call in (hvd.alltoall, hvd.reducescatter):
        with pytest.raises(ValueError, match="not registered"):
            call(torch.ones(size), name=name, process_set=unregistered)
    with pytest.raises(ValueError, match="not registered"):
        hvd.grouped_reducescatter([torch.ones(size)], name=name, process_set=unregistered)
    check_later_operations_work(name, rank, size)
