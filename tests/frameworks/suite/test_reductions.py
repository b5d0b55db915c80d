"""allreduce and reducescatter: every reduction, type, shape and form, compared with NumPy."""

from __future__ import annotations

from types import ModuleType
from typing import Any, List

import drivers
import numpy
import pytest
from expected_values import EXACT, reduced, sample, samples, shares

DRIVER = drivers.current()
OPS = [*EXACT, "Average"]
FLOATS = [each for each in DRIVER.reducible if each in drivers.FLOATS]
WHOLE = [each for each in DRIVER.reducible if each not in drivers.FLOATS]
SHAPES = [(), (0,), (1,), (3, 0, 2), (17, 5), (4, 3, 2), (70001,)]
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-6, "float64": 1e-12}


def same(result: Any, wanted: Any, dtype: str) -> None:
    """Checks the type and the values: floats within a tolerance, whole numbers exactly."""
    assert DRIVER.is_tensor(result) and DRIVER.dtype_of(result) == dtype
    array = DRIVER.to_numpy(result)
    assert array.shape == wanted.shape
    if dtype in TOLERANCE:
        numpy.testing.assert_allclose(array, wanted, rtol=TOLERANCE[dtype], atol=0)
    else:
        numpy.testing.assert_array_equal(array, wanted)


@pytest.mark.parametrize("mode", DRIVER.modes)
@pytest.mark.parametrize("dtype", DRIVER.reducible)
@pytest.mark.parametrize("op", OPS)
def test_allreduce_matches_numpy_and_leaves_the_input_unchanged(
    hvd: ModuleType, op: str, dtype: str, mode: str, name: str, rank: int, size: int
) -> None:
    tensor = DRIVER.make(sample(rank, dtype), dtype)
    result = DRIVER.run(mode, lambda tensor: hvd.allreduce(tensor, name=name, op=getattr(hvd, op)), tensor)
    same(result, reduced(op, samples(size, dtype)), dtype)
    numpy.testing.assert_array_equal(DRIVER.to_numpy(tensor), sample(rank, dtype))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_tensors_of_every_shape_are_reduced(hvd: ModuleType, shape: Any, name: str, rank: int, size: int) -> None:
    result = hvd.allreduce(DRIVER.make(sample(rank, "float32", shape), "float32"), name=name, op=hvd.Sum)
    same(result, numpy.asarray(reduced("Sum", [numpy.asarray(e) for e in samples(size, "float32", shape)])), "float32")


def test_allreduce_averages_by_default(hvd: ModuleType, name: str, rank: int, size: int) -> None:
    result = hvd.allreduce(DRIVER.make([rank, 2.0 * rank], "float32"), name=name)
    numpy.testing.assert_allclose(DRIVER.to_numpy(result), [(size - 1) / 2, size - 1])


def test_the_average_argument_is_deprecated_and_excludes_op(hvd: ModuleType, name: str, rank: int, size: int) -> None:
    tensor = DRIVER.make([float(rank)], "float32")
    with pytest.warns(DeprecationWarning, match="op"):
        result = hvd.allreduce(tensor, average=False, name=name)
    assert DRIVER.to_numpy(result).tolist() == [size * (size - 1) / 2]
    with pytest.raises(ValueError, match="both"):
        hvd.allreduce(tensor, average=True, op=hvd.Sum, name=f"{name}.both")


@pytest.mark.parametrize("dtype", DRIVER.reducible)
def test_prescale_and_postscale_apply_before_and_after_the_reduction(
    hvd: ModuleType, dtype: str, name: str, rank: int, size: int
) -> None:
    values = [sample(each, dtype) for each in range(size)]
    tensor = DRIVER.make(values[rank], dtype)
    result = hvd.allreduce(tensor, name=name, op=hvd.Sum, prescale_factor=2.5, postscale_factor=0.5)
    if dtype in FLOATS:
        wanted = sum(each.astype("float64") * 2.5 for each in values) * 0.5
        same(result, wanted, dtype)
        return
    # Whole numbers are scaled in double and truncated, separately before and after.
    before = [(each.astype("float64") * 2.5).astype(dtype) for each in values]
    total = reduced("Sum", before)
    same(result, (total.astype("float64") * 0.5).astype(dtype), dtype)


@pytest.mark.skipif(not DRIVER.offers("allreduce_"), reason="arrays are never written to")
def test_allreduce_in_place_returns_the_same_tensor(hvd: ModuleType, name: str, rank: int, size: int) -> None:
    tensor = DRIVER.make(sample(rank, "float32"), "float32")
    assert hvd.allreduce_(tensor, name=name, op=hvd.Max) is tensor
    same(tensor, reduced("Max", samples(size, "float32")), "float32")


def group_samples(size: int) -> List[Any]:
    """The types and samples of a group's members: several types and shapes, one of them empty."""
    kinds = [("float32", (5, 7)), (WHOLE[-1], (3,)), ("float64", (0, 2)), ("float32", (1,))]
    return [(dtype, samples(size, dtype, shape)) for dtype, shape in kinds]


@pytest.mark.parametrize("mode", DRIVER.modes)
@pytest.mark.parametrize("op", ["Sum", "Average"])
def test_grouped_allreduce_reduces_each_member_of_the_group(
    hvd: ModuleType, op: str, mode: str, name: str, rank: int, size: int
) -> None:
    tensors = [DRIVER.make(values[rank], dtype) for dtype, values in group_samples(size)]
    results = DRIVER.run(
        mode, lambda *tensors: hvd.grouped_allreduce(list(tensors), name=name, op=getattr(hvd, op)), *tensors
    )
    assert len(results) == len(tensors)
    for result, (dtype, values) in zip(results, group_samples(size)):
        same(result, reduced(op, values), dtype)


@pytest.mark.skipif(not DRIVER.offers("grouped_allreduce_"), reason="arrays are never written to")
def test_grouped_allreduce_in_place_returns_the_same_tensors(hvd: ModuleType, name: str, rank: int, size: int) -> None:
    tensors = [DRIVER.make(values[rank], dtype) for dtype, values in group_samples(size)]
    results = hvd.grouped_allreduce_(tensors, name=name, op=hvd.Sum)
    for tensor, result, (dtype, values) in zip(tensors, results, group_samples(size)):
        assert result is tensor
        same(tensor, reduced("Sum", values), dtype)
    with pytest.raises(DRIVER.errors()["invalid"], match=f"{name}_2of2: its memory overlaps .*{name}_1of2"):
        DRIVER.to_numpy(hvd.grouped_allreduce_([tensors[0]] * 2, name=name)[0])


def test_grouped_allreduce_of_an_empty_group_returns_no_tensors(hvd: ModuleType) -> None:
    assert len(hvd.grouped_allreduce([])) == 0


@pytest.mark.skipif(not DRIVER.offers("allreduce", "compression"), reason="takes no compression")
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_fp16_compression_keeps_types_and_values_of_floats_and_integers(
    hvd: ModuleType, dtype: str, name: str, rank: int, size: int
) -> None:
    tensor = DRIVER.make(sample(rank, dtype), dtype)
    result = hvd.allreduce(tensor, name=name, op=hvd.Sum, compression=hvd.Compression.fp16)
    same(result, reduced("Sum", samples(size, dtype)), dtype)


@pytest.mark.skipif(not DRIVER.offers("grouped_allreduce", "compression"), reason="takes no compression")
@pytest.mark.parametrize("kind", ["fp16", "bf16"])
def test_compression_of_a_group_keeps_the_type_of_each_member(
    hvd: ModuleType, kind: str, name: str, rank: int, size: int
) -> None:
    tensors = [DRIVER.make(sample(rank, dtype), dtype) for dtype in ("float32", "int32", "float64", "float32")]
    compression = getattr(hvd.Compression, kind, hvd.Compression.fp16)
    results = hvd.grouped_allreduce(tensors, name=name, op=hvd.Sum, compression=compression)
    for result, dtype in zip(results, ("float32", "int32", "float64", "float32")):
        same(result, reduced("Sum", samples(size, dtype)), dtype)
    for tensor, dtype in zip(tensors, ("float32", "int32", "float64", "float32")):
        same(tensor, sample(rank, dtype), dtype)  # the script's own tensors stay


@pytest.mark.skipif(not DRIVER.offers("allreduce_async"), reason="has no handles")
def test_asynchronous_calls_can_be_synchronized_in_any_order(hvd: ModuleType, name: str, rank: int, size: int) -> None:
    tensors = [DRIVER.make(numpy.full(length, rank), "float32") for length in (3, 30_000, 5)]
    handles = [hvd.allreduce_async(each, name=f"{name}.{i}", op=hvd.Sum) for i, each in enumerate(tensors)]
    for handle, tensor in reversed(list(zip(handles, tensors))):
        wanted = numpy.full(DRIVER.to_numpy(tensor).shape, size * (size - 1) / 2)
        same(hvd.synchronize(handle), wanted, "float32")


def test_a_tensor_name_can_be_reused_in_every_step(hvd: ModuleType, name: str, rank: int, size: int) -> None:
    for step in range(20):
        result = hvd.allreduce(DRIVER.make([rank + step], "float32"), name=name, op=hvd.Sum)
        assert DRIVER.to_numpy(result).tolist() == [size * step + size * (size - 1) / 2]


# ---- reducescatter


@pytest.mark.parametrize("mode", DRIVER.modes)
@pytest.mark.parametrize("dtype", DRIVER.reducible)
@pytest.mark.parametrize("op", ["Sum", "Average", "Max"])
def test_reducescatter_matches_numpy(
    hvd: ModuleType, op: str, dtype: str, mode: str, name: str, rank: int, size: int
) -> None:
    shape = (2 * size + 1, 3)
    tensor = DRIVER.make(sample(rank, dtype, shape), dtype)
    result = DRIVER.run(mode, lambda tensor: hvd.reducescatter(tensor, name=name, op=getattr(hvd, op)), tensor)
    same(result, shares(reduced(op, samples(size, dtype, shape)), size)[rank], dtype)


@pytest.mark.parametrize("op", ["Min", "Product"])
def test_reducescatter_with_min_and_product_matches_numpy(
    hvd: ModuleType, op: str, name: str, rank: int, size: int
) -> None:
    shape = (size, 2, 2)
    tensor = DRIVER.make(sample(rank, "float32", shape), "float32")
    result = hvd.reducescatter(tensor, name=name, op=getattr(hvd, op))
    same(result, shares(reduced(op, samples(size, "float32", shape)), size)[rank], "float32")


def test_reducescatter_accepts_fewer_rows_than_ranks(hvd: ModuleType, name: str, rank: int, size: int) -> None:
    tensor = DRIVER.make(sample(rank, "float32", (1, 3)), "float32")
    result = hvd.reducescatter(tensor, name=name, op=hvd.Sum)
    same(result, shares(reduced("Sum", samples(size, "float32", (1, 3))), size)[rank], "float32")


def test_reducescatter_applies_prescale_and_postscale(hvd: ModuleType, name: str, rank: int, size: int) -> None:
    shape = (size + 1, 3)
    tensor = DRIVER.make(sample(rank, "float32", shape), "float32")
    result = hvd.reducescatter(tensor, name=name, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.25)
    same(result, shares(reduced("Sum", samples(size, "float32", shape)) / 2, size)[rank], "float32")


def test_grouped_reducescatter_scatters_each_member_of_the_group(
    hvd: ModuleType, name: str, rank: int, size: int
) -> None:
    kinds = [("float32", (size + 1, 2)), ("float64", (2 * size,)), (WHOLE[0], (1, 1))]
    tensors = [DRIVER.make(sample(rank, dtype, shape), dtype) for dtype, shape in kinds]
    results = hvd.grouped_reducescatter(tensors, name=name, op=hvd.Sum)
    assert len(results) == len(kinds)
    for result, (dtype, shape) in zip(results, kinds):
        same(result, shares(reduced("Sum", samples(size, dtype, shape)), size)[rank], dtype)
