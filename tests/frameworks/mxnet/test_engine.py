"""Operations in MXNet's engine: their dependencies, and the memory on which they work."""

from __future__ import annotations

import gc
from typing import Any

import farandole.mxnet as hvd
import mxnet as mx
import numpy
import pytest
from farandole.common import job
from mxnet import nd
from mxnet.base import MXNetError

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")


def sum_over_ranks(size: int, array_of: Any) -> Any:
    """The sum of ``array_of(rank)`` over all ranks."""
    return sum(array_of(rank) for rank in range(size))


def test_computation_on_a_result_waits_for_the_result(name: str, rank: int, size: int) -> None:
    value = nd.full((1000,), rank + 1.0)
    for step in range(4):
        value = hvd.allreduce(value * 2, name=f"{name}.{step}", op=hvd.Sum) - 1
    wanted = sum(rank + 1.0 for rank in range(size)) * 2 - 1
    for _ in range(3):
        wanted = wanted * 2 * size - 1
    numpy.testing.assert_array_equal(value.asnumpy(), numpy.full(1000, wanted))


def test_results_that_are_dropped_do_not_affect_later_operations(name: str, size: int) -> None:
    for index in range(20):
        hvd.allreduce(nd.ones((500, 2)) * 2, name=f"{name}.{index}", priority=-index)
    gc.collect()
    mx.nd.waitall()
    assert hvd.allreduce(nd.ones((2,)), name=name, op=hvd.Sum).asnumpy().tolist() == [size, size]


def test_operations_that_are_pushed_to_the_engine_do_not_use_the_fast_path(name: str, size: int) -> None:
    before = job.runtime.counters()["on_fast_path"]
    for _ in range(5):
        assert hvd.allreduce(nd.ones((2,)), name=name, op=hvd.Sum).asnumpy().tolist() == [size, size]
    assert job.runtime.counters()["on_fast_path"] == before


def test_views_of_one_array_are_reduced_as_a_group(name: str, rank: int, size: int) -> None:
    whole = nd.array(numpy.arange(12).reshape(6, 2) + rank)
    hvd.grouped_allreduce_([whole[0:2], whole[2:3], whole[3:6]], name=name, op=hvd.Sum)
    wanted = sum_over_ranks(size, lambda rank: numpy.arange(12).reshape(6, 2) + rank)
    numpy.testing.assert_array_equal(whole.asnumpy(), wanted)


def test_one_array_may_be_in_a_group_twice(name: str, rank: int, size: int) -> None:
    one = nd.full((3,), rank)
    first, second = hvd.grouped_allreduce([one, one], name=name, op=hvd.Max)
    assert first.asnumpy().tolist() == second.asnumpy().tolist() == [size - 1.0] * 3


def convolved(rank: int) -> Any:
    """An array that oneDNN keeps in its own memory layout until the array is read."""
    images = nd.array(numpy.random.RandomState(rank).rand(12, 16, 8, 8))
    kernels = nd.array(numpy.random.RandomState(7).rand(32, 16, 3, 3))
    return nd.Convolution(images, kernels, no_bias=True, kernel=(3, 3), num_filter=32)


@pytest.mark.parametrize("call", ["allreduce", "allreduce_", "broadcast", "reducescatter", "allgather", "alltoall"])
def test_arrays_in_onednns_memory_layout_give_the_same_results(call: str, name: str, rank: int, size: int) -> None:
    plain = [convolved(each).asnumpy() for each in range(size)]
    keywords = {"root_rank": size - 1} if call == "broadcast" else {}
    result = getattr(hvd, call)(convolved(rank), name=name, **keywords).asnumpy()
    if call == "allgather":
        wanted = numpy.concatenate(plain)
    elif call == "alltoall":
        wanted = numpy.concatenate([numpy.array_split(each, size)[rank] for each in plain])
    elif call == "broadcast":
        wanted = plain[-1]
    else:
        wanted = sum(plain) / size
        wanted = numpy.array_split(wanted, size)[rank] if call == "reducescatter" else wanted
    numpy.testing.assert_allclose(result, wanted, rtol=1e-6)


def test_operations_on_mxnet_numpy_arrays_return_mxnet_numpy_arrays(name: str, rank: int, size: int) -> None:
    array = mx.np.array([rank, 1.0])
    for index, result in enumerate(
        (
            hvd.allreduce(array, name=f"{name}.0", op=hvd.Sum),
            hvd.broadcast(array, 0, name=f"{name}.1"),
            hvd.allgather(array, name=f"{name}.2"),
            hvd.alltoall(mx.np.ones((size, 1)), name=f"{name}.3"),
            hvd.reducescatter(mx.np.ones((size, 1)), name=f"{name}.4"),
        )
    ):
        assert isinstance(result, mx.np.ndarray), index


def test_splits_that_are_not_integers_are_refused(name: str, size: int) -> None:
    """An array of MXNet is float32 unless the script gives a type, so scripts make this mistake easily."""
    rows = nd.ones((size, 2))
    bad = (nd.ones(size), mx.np.ones(size), numpy.ones(size), [1.0] * size, nd.ones((size, 1), dtype="int32"), 1)
    for number, splits in enumerate(bad):
        with pytest.raises(MXNetError, match="integers"):
            hvd.alltoall(rows, splits=splits, name=f"{name}.{number}")
    good = (nd.ones(size, dtype="int32"), nd.ones(size, dtype="int64"), numpy.ones(size, "int64"), [1] * size)
    for number, splits in enumerate(good):
        received, counts = hvd.alltoall(rows, splits=splits, name=f"{name}.good.{number}")
        assert received.shape == (size, 2) and counts.asnumpy().tolist() == [1] * size


def test_reducescatter_and_alltoall_accept_fewer_rows_than_ranks(name: str, rank: int, size: int) -> None:
    with mx.util.np_shape(True):
        share = hvd.reducescatter(nd.ones((1, 3)), op=hvd.Sum, name=name)
        assert share.asnumpy().tolist() == ([[size] * 3] if rank == 0 else [])
        rows, counts = hvd.alltoall(nd.ones((2, 3)), splits=[2] + [0] * (size - 1), name=f"{name}.rows")
        assert rows.shape == (2 * size if rank == 0 else 0, 3)
        assert counts.asnumpy().tolist() == ([2] * size if rank == 0 else [0] * size) and counts.dtype == numpy.int32


@several_ranks
def test_an_array_whose_computation_failed_is_not_sent(name: str, rank: int, size: int) -> None:
    """The engine passes the failure on to every array that depends on it, and the job is not affected."""

    def broken() -> Any:
        return nd.dot(nd.ones((2, 2), dtype="float16"), nd.ones((2, 2), dtype="float16"))  # no such kernel

    reduced = hvd.allreduce(broken(), name=name)
    with pytest.raises(MXNetError, match="dot only supports"):
        reduced.wait_to_read()
    with pytest.raises(MXNetError, match="dot only supports"):
        hvd.allgather(broken(), name=name)
    assert hvd.allreduce(nd.ones((2,)), name=name, op=hvd.Sum).asnumpy().tolist() == [size, size]


@several_ranks
def test_the_error_of_a_result_is_raised_by_arrays_computed_from_it(name: str, rank: int, size: int) -> None:
    result = hvd.allreduce(nd.ones((2 + rank % 2,)), name=name)
    later = (result * 2).sum()
    with pytest.raises(MXNetError, match=rf"{name}.*rank 0 has \[2\], rank 1 has \[3\]"):
        later.asscalar()
    # An array that was reduced in place can be used again after it has raised its error.
    array = nd.ones((2 + rank % 2,))
    hvd.allreduce_(array, name=name)
    with pytest.raises(MXNetError, match=name):
        array.wait_to_read()
    array[:] = 5
    assert set(array.asnumpy().tolist()) == {5.0}
    assert hvd.allreduce(nd.ones((2,)), name=name, op=hvd.Sum).asnumpy().tolist() == [size, size]


def test_calls_without_names_match_by_their_order(rank: int, size: int) -> None:
    results = [hvd.allreduce(nd.full((1,), rank + index), op=hvd.Max) for index in range(5)]
    assert [each.asscalar() for each in results] == [size - 1 + index for index in range(5)]


def test_invalid_arrays_reductions_and_names_are_refused() -> None:
    for wrong in (numpy.ones(3), [1.0], None):
        with pytest.raises(TypeError, match="allreduce takes an mxnet.nd.NDArray, not"):
            hvd.allreduce(wrong, name="wrong")
    with pytest.raises(ValueError, match="no reduction"):
        hvd.allreduce(nd.ones((1,)), op=17)
    with pytest.raises(ValueError, match="NUL"):
        hvd.allreduce(nd.ones((1,)), name="a\0b")


def test_adasum_is_refused() -> None:
    for call in (hvd.allreduce, hvd.allreduce_, hvd.reducescatter):
        with pytest.raises(AssertionError, match="Adasum"):
            call(nd.ones((2,)), op=hvd.Adasum)


def test_sparse_arrays_are_refused_with_a_hint(name: str) -> None:
    sparse = nd.ones((4, 2)).tostype("row_sparse")
    for call in (lambda: hvd.allreduce(sparse, name=name), lambda: hvd.allgather(sparse, name=name)):
        with pytest.raises(MXNetError, match="tostype"):
            call()


def test_operations_on_empty_groups_return_empty_lists() -> None:
    assert hvd.grouped_allreduce([]) == hvd.grouped_allreduce_([]) == []
    assert hvd.grouped_allgather([]) == hvd.grouped_reducescatter([]) == []


@pytest.mark.filterwarnings("ignore:You are attempting to copy an array to itself")
def test_arrays_on_a_gpu_go_through_host_memory(monkeypatch: pytest.MonkeyPatch, name: str, size: int) -> None:
    """Simulated without a GPU: the kernels refuse the arrays, and patches tell the entry that they are on a GPU."""
    from farandole.mxnet import entry

    kernels_push = entry._push
    refused = []

    def refuse_once(*arguments: Any) -> int:
        if not refused:
            refused.append(arguments)
            return 0
        return int(kernels_push(*arguments))

    monkeypatch.setattr(entry, "_push", refuse_once)
    monkeypatch.setattr(entry, "on_gpu", lambda arrays: True)
    array = nd.ones((3,))
    assert hvd.allreduce(array, name=name, op=hvd.Sum).asnumpy().tolist() == [size] * 3
    assert refused and array.asnumpy().tolist() == [1.0] * 3
    refused.clear()
    hvd.allreduce_(array, name=name, op=hvd.Sum)
    assert refused and array.asnumpy().tolist() == [size] * 3


@several_ranks
def test_errors_of_the_engine_and_of_calls_that_wait_have_the_documented_classes(
    name: str, rank: int, size: int
) -> None:
    pushed = hvd.allreduce(nd.ones((3 + rank,)), name=name)
    for call in (pushed.asnumpy, lambda: hvd.allgather(nd.ones((2, 3 + rank)), name=f"{name}.waits")):
        with pytest.raises(hvd.MismatchError, match="shapes differ|rows differ") as failed:
            call()
        assert isinstance(failed.value, MXNetError) and isinstance(failed.value, ValueError)
        assert str(failed.value).startswith(("allreduce", "allgather", "horovod_")), failed.value
    assert hvd.allreduce(nd.ones((2,)), name=name, op=hvd.Sum).asnumpy().tolist() == [size, size]
