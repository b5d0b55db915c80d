"""The results of each operation for every type, reduction and shape."""

from __future__ import annotations

import math
from typing import Callable, List

import horovod.torch as hvd
import pytest
import torch
from samples import ALL_TYPES, EXACT, FLOATS, INTEGERS, REDUCIBLE, sample, samples, wide

SHAPES = [(), (0,), (1,), (7,), (3, 0, 2), (17, 5), (4, 3, 2), (1000,), (70001,)]


@pytest.mark.parametrize("dtype", REDUCIBLE, ids=str)
@pytest.mark.parametrize("op", list(EXACT))
def test_allreduce_reduces_exactly(op: str, dtype: torch.dtype, name: str, rank: int, size: int) -> None:
    tensor = sample(rank, dtype)
    before = tensor.clone()
    reduced = hvd.allreduce(tensor, name=name, op=getattr(hvd, op))
    assert reduced.dtype == dtype and reduced.shape == tensor.shape
    assert torch.equal(tensor, before)
    assert torch.equal(wide(reduced), wide(EXACT[op](wide(samples(size, dtype))).to(dtype)))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_average_divides_by_the_number_of_ranks(dtype: torch.dtype, name: str, rank: int, size: int) -> None:
    reduced = hvd.allreduce(sample(rank, dtype), name=name)
    expected = (wide(samples(size, dtype)).sum(0) / size).to(dtype)
    torch.testing.assert_close(reduced, expected)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_average_of_integers_truncates_toward_zero(dtype: torch.dtype, name: str, rank: int, size: int) -> None:
    reduced = hvd.allreduce(sample(rank, dtype), name=name, op=hvd.Average)
    expected = torch.div(wide(samples(size, dtype)).sum(0), size, rounding_mode="trunc")
    assert torch.equal(wide(reduced), expected)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_an_average_of_integers_is_right_where_their_sum_overflows(dtype: torch.dtype, name: str, size: int) -> None:
    limits = torch.iinfo(dtype)
    part = size if dtype == torch.int64 else 1  # sums have 64 bits
    tensor = torch.tensor([limits.max // part, -(-limits.min // part), 1], dtype=dtype)
    assert torch.equal(hvd.allreduce(tensor, name=name, op=hvd.Average), tensor)


@pytest.mark.parametrize("dtype", REDUCIBLE, ids=str)
def test_allreduce_applies_the_prescale_before_and_the_postscale_after(
    dtype: torch.dtype, name: str, rank: int, size: int
) -> None:
    reduced = hvd.allreduce(sample(rank, dtype), name=name, op=hvd.Sum, prescale_factor=2.5, postscale_factor=0.5)
    inputs = samples(size, dtype)
    if dtype.is_floating_point:
        expected = ((wide(inputs) * 2.5).sum(0) * 0.5).to(dtype)
        torch.testing.assert_close(reduced, expected)
        return
    # Integers are scaled in double and truncated, separately before and after.
    scaled = torch.tensor([int(value * 2.5) for value in wide(inputs).flatten().tolist()]).view(inputs.shape).to(dtype)
    summed = scaled.sum(0, dtype=dtype)
    expected = torch.tensor([int(value * 0.5) for value in wide(summed).flatten().tolist()]).view(summed.shape)
    assert torch.equal(wide(reduced), expected)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_allreduce_accepts_every_shape(shape: tuple, name: str, rank: int, size: int) -> None:
    reduced = hvd.allreduce(sample(rank, torch.float32, shape), name=name, op=hvd.Sum)
    assert torch.equal(reduced, samples(size, torch.float32, shape).sum(0))


def test_allreduce_has_the_right_sum_for_small_and_large_tensors(name: str, rank: int, size: int) -> None:
    for count in (1, 1000, 16 * 1024, 16 * 1024 + 1, 300_001, 5_000_000):
        tensor = torch.full((count,), float(rank + 1))
        hvd.allreduce_(tensor, name=f"{name}.{count}", op=hvd.Sum)
        assert torch.equal(tensor, torch.full((count,), size * (size + 1) / 2)), count


def test_an_allreduce_has_the_same_bits_on_all_ranks(name: str, rank: int, size: int) -> None:
    generator = torch.Generator().manual_seed(rank)
    for count in (13, 100_003):
        reduced = hvd.allreduce(torch.randn(count, generator=generator), name=f"{name}.{count}")
        gathered = hvd.allgather(reduced.view(torch.int32).unsqueeze(0), name=f"{name}.bits.{count}")
        assert all(torch.equal(bits, gathered[0]) for bits in gathered)


def test_a_repeated_allreduce_has_the_same_bits(name: str, rank: int) -> None:
    tensor = torch.randn(50_021, generator=torch.Generator().manual_seed(rank))
    first = hvd.allreduce(tensor, name=name)
    for _ in range(5):
        assert torch.equal(hvd.allreduce(tensor, name=name), first)


def test_an_in_place_allreduce_returns_the_same_tensor(name: str, rank: int, size: int) -> None:
    tensor = sample(rank, torch.float32)
    assert hvd.allreduce_(tensor, name=name, op=hvd.Sum) is tensor
    assert torch.equal(tensor, samples(size, torch.float32).sum(0))


def test_asynchronous_operations_may_be_synchronized_in_reverse_order(name: str, rank: int, size: int) -> None:
    tensors = [torch.full((length,), float(rank)) for length in (3, 30_000, 5, 500)]
    handles = [hvd.allreduce_async_(tensor, name=f"{name}.{i}", op=hvd.Sum) for i, tensor in enumerate(tensors)]
    for handle, tensor in reversed(list(zip(handles, tensors))):
        assert hvd.synchronize(handle) is tensor
        assert torch.equal(tensor, torch.full_like(tensor, size * (size - 1) / 2))


def test_poll_returns_true_when_an_operation_has_ended(name: str) -> None:
    handle = hvd.allreduce_async(torch.ones(4), name=name)
    while not hvd.poll(handle):
        pass
    assert torch.equal(hvd.synchronize(handle), torch.ones(4))


def test_a_name_may_be_reused_in_every_step(name: str, rank: int, size: int) -> None:
    for step in range(50):
        reduced = hvd.allreduce(torch.full((11,), float(rank + step)), name=name, op=hvd.Sum)
        assert reduced[0].item() == size * step + size * (size - 1) / 2


def test_the_tensor_of_a_name_may_change_shape_and_type_on_all_ranks(name: str, size: int) -> None:
    for dtype, count in ((torch.float32, 5), (torch.float32, 6), (torch.int64, 6), (torch.float64, 70_000)):
        for _ in range(3):
            assert torch.equal(
                hvd.allreduce(torch.ones(count, dtype=dtype), name=name, op=hvd.Sum),
                torch.full((count,), size, dtype=dtype),
            )


def test_ranks_may_submit_in_different_orders(name: str, rank: int, size: int) -> None:
    order = list(range(20))
    if rank % 2:
        order.reverse()
    for _ in range(3):
        tensors = [torch.full((i + 1,), float(i)) for i in range(20)]
        handles = {i: hvd.allreduce_async_(tensors[i], name=f"{name}.{i}", op=hvd.Sum) for i in order}
        for i, handle in handles.items():
            assert torch.equal(hvd.synchronize(handle), torch.full((i + 1,), float(i * size)))


def test_unnamed_calls_match_by_their_order(rank: int, size: int) -> None:
    first = hvd.allreduce_async(torch.full((2,), float(rank)), op=hvd.Sum)
    second = hvd.allreduce_async(torch.full((3,), 1.0), op=hvd.Sum)
    assert torch.equal(hvd.synchronize(second), torch.full((3,), float(size)))
    assert torch.equal(hvd.synchronize(first), torch.full((2,), size * (size - 1) / 2))


def test_many_small_tensors_in_flight_have_the_right_sums(name: str, rank: int, size: int) -> None:
    tensors = [torch.full((256,), float(rank + i)) for i in range(1000)]
    for _ in range(3):
        inputs = [tensor.clone() for tensor in tensors]
        handles = [hvd.allreduce_async_(tensor, name=f"{name}.{i}", op=hvd.Sum) for i, tensor in enumerate(inputs)]
        for i, handle in enumerate(handles):
            assert hvd.synchronize(handle)[0].item() == size * i + size * (size - 1) / 2


def test_a_dropped_handle_keeps_its_memory_until_its_operation_ends(name: str, size: int) -> None:
    from farandole.common import calls
    from farandole.torch import entry

    for round_number in range(20):
        request = calls.reduction(None, hvd.Sum, 1.0, 1.0)
        entry.start(request, f"{name}.{round_number}", torch.ones(30_000), torch.empty(30_000), hvd.global_process_set)
        torch.zeros(30_000)  # would reuse the memory if it were free
    assert torch.equal(hvd.allreduce(torch.ones(3), name=name, op=hvd.Sum), torch.full((3,), float(size)))


# ---- groups ----


def test_grouped_allreduce_reduces_each_tensor_of_the_group(name: str, rank: int, size: int) -> None:
    tensors = [torch.full((i + 1,), float(rank), dtype=dtype) for i, dtype in enumerate(FLOATS)]
    reduced = hvd.grouped_allreduce(tensors, name=name, op=hvd.Sum)
    assert isinstance(reduced, list)
    for i, tensor in enumerate(reduced):
        assert torch.equal(tensor, torch.full((i + 1,), size * (size - 1) / 2, dtype=FLOATS[i]))
    in_place = hvd.grouped_allreduce_(tensors, name=name, op=hvd.Sum)
    assert isinstance(in_place, tuple) and all(a is b for a, b in zip(in_place, tensors))
    again = hvd.synchronize(hvd.grouped_allreduce_async(tensors, name=name, op=hvd.Average))
    assert all(torch.equal(a, b) for a, b in zip(again, tensors))


def test_grouped_allreduce_of_an_empty_group_returns_an_empty_list() -> None:
    assert hvd.grouped_allreduce([]) == []


def test_grouped_allgather_gathers_each_tensor_of_the_group(name: str, rank: int, size: int) -> None:
    gathered = hvd.grouped_allgather([torch.full((rank + 1, i + 1), rank) for i in range(3)], name=name)
    for i, tensor in enumerate(gathered):
        expected = torch.cat([torch.full((other + 1, i + 1), other) for other in range(size)])
        assert torch.equal(tensor, expected)


# ---- allgather ----


@pytest.mark.parametrize("dtype", ALL_TYPES, ids=str)
def test_allgather_concatenates_in_rank_order(dtype: torch.dtype, name: str, rank: int, size: int) -> None:
    gathered = hvd.allgather(sample(rank, dtype), name=name)
    assert gathered.dtype == dtype
    assert torch.equal(gathered, samples(size, dtype).flatten(0, 1))


@pytest.mark.parametrize("rows_of", [lambda r: r + 1, lambda r: 0 if r else 3, lambda r: 0, lambda r: 40_000 * (r + 1)])
def test_allgather_takes_any_number_of_rows(rows_of: Callable[[int], int], name: str, rank: int, size: int) -> None:
    for _ in range(3):
        gathered = hvd.allgather(torch.full((rows_of(rank), 3), float(rank)), name=name)
        expected = torch.cat([torch.full((rows_of(other), 3), float(other)) for other in range(size)])
        assert torch.equal(gathered, expected)


def test_a_gathered_tensor_outlives_its_handle_and_is_writable(name: str, rank: int, size: int) -> None:
    gathered = hvd.synchronize(hvd.allgather_async(torch.tensor([rank]), name=name))
    more = [hvd.allgather(torch.full((100,), i), name=f"{name}.{i}") for i in range(10)]
    assert gathered.tolist() == list(range(size))
    gathered += 1
    assert gathered.tolist() == list(range(1, size + 1))
    assert all(torch.equal(later, torch.full((100 * size,), i)) for i, later in enumerate(more))


# ---- broadcast ----


@pytest.mark.parametrize("dtype", ALL_TYPES, ids=str)
def test_broadcast_copies_the_tensor_of_the_root_to_all_ranks(
    dtype: torch.dtype, name: str, rank: int, size: int
) -> None:
    for root in range(size):
        tensor = sample(rank, dtype)
        received = hvd.broadcast(tensor, root, name=f"{name}.{root}")
        assert torch.equal(received, sample(root, dtype))
        assert torch.equal(tensor, sample(rank, dtype))
        assert received is not tensor
        assert hvd.broadcast_(tensor, root, name=f"{name}.{root}") is tensor
        assert torch.equal(tensor, sample(root, dtype))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_broadcast_accepts_every_shape(shape: tuple, name: str, rank: int, size: int) -> None:
    received = hvd.synchronize(hvd.broadcast_async(sample(rank, torch.float32, shape), size - 1, name=name))
    assert torch.equal(received, sample(size - 1, torch.float32, shape))


# ---- compression, values, barriers and threads ----


@pytest.mark.parametrize("compression", ["none", "fp16", "bf16"])
def test_a_compressed_allreduce_keeps_the_dtype(compression: str, name: str, rank: int, size: int) -> None:
    compressor = getattr(hvd.Compression, compression)
    for dtype in (torch.float32, torch.float64, torch.int32):
        reduced = hvd.allreduce(
            torch.full((9,), rank, dtype=dtype), name=f"{name}.{dtype}", op=hvd.Sum, compression=compressor
        )
        assert reduced.dtype == dtype
        assert reduced.tolist() == [size * (size - 1) / 2] * 9
    grouped = hvd.grouped_allreduce([torch.ones(2), torch.ones(3)], name=name, op=hvd.Sum, compression=compressor)
    assert [tensor.tolist() for tensor in grouped] == [[size] * 2, [size] * 3]


@pytest.mark.parametrize("compression", ["fp16", "bf16"])
def test_later_operations_do_not_overwrite_large_compressed_results(
    compression: str, name: str, rank: int, size: int
) -> None:
    # The library reuses the memory of large half-precision tensors, but not while a caller holds them.
    compressor = getattr(hvd.Compression, compression)
    shape = (3, 200_000)
    results = []
    for turn in range(4):
        tensor = torch.full(shape, float(rank + turn))
        results.append(hvd.allreduce(tensor, name=name, op=hvd.Sum, compression=compressor))
        assert torch.equal(tensor, torch.full(shape, float(rank + turn)))
        group = [torch.full(shape, 1.0 + turn), torch.full((5,), 2.0)]
        results.append(hvd.grouped_allreduce(group, name=f"{name}.group", op=hvd.Sum, compression=compressor)[0])
    for turn in range(4):
        total = float(sum(source + turn for source in range(size)))
        assert torch.equal(results[2 * turn], torch.full(shape, total))
        assert torch.equal(results[2 * turn + 1], torch.full(shape, size * (1.0 + turn)))


@pytest.mark.parametrize("compression", ["fp16", "bf16"])
def test_a_large_compressed_allreduce_has_gradients(compression: str, name: str, size: int) -> None:
    tensor = torch.ones(600_000, requires_grad=True)
    hvd.allreduce(tensor, name=name, op=hvd.Sum, compression=getattr(hvd.Compression, compression)).sum().backward()
    assert tensor.grad is not None and torch.equal(tensor.grad, torch.full((600_000,), float(size)))


def test_compressors_do_not_change_their_input(size: int) -> None:
    shape = (700, 1000)
    tensor = torch.linspace(-2, 2, 700_000).reshape(shape)
    for original in (tensor, tensor.t(), tensor[:, ::2], torch.zeros(0), torch.nn.Parameter(tensor.clone())):
        before = original.detach().clone()
        packed, context = hvd.Compression.fp16.compress(original)
        assert packed.dtype == torch.float16 and torch.equal(packed, before.to(torch.float16))
        restored = hvd.Compression.fp16.decompress(packed, context)
        assert restored.dtype == torch.float32 and torch.equal(restored, before.to(torch.float16).float())
        assert torch.equal(original, before) and packed.requires_grad == original.requires_grad


def test_a_half_precision_allreduce_accumulates_in_float(name: str, size: int) -> None:
    # In half precision 2048 + 1 rounds to 2048; an accumulation in float keeps the ones.
    tensor = torch.full((64,), 1.0, dtype=torch.float16)
    scaled = hvd.allreduce(tensor, name=name, op=hvd.Sum, prescale_factor=2048.0, postscale_factor=1 / 2048.0)
    assert torch.equal(scaled, torch.full((64,), float(size), dtype=torch.float16))


def test_allreduce_propagates_infinities_and_nans(name: str, rank: int, size: int) -> None:
    tensor = torch.tensor([math.inf, -math.inf, math.nan, 1.0])
    reduced = hvd.allreduce(tensor, name=name, op=hvd.Sum)
    assert reduced[0] == math.inf and reduced[1] == -math.inf and math.isnan(reduced[2]) and reduced[3] == size


def test_barrier_does_not_wait_for_other_operations(name: str, rank: int, size: int) -> None:
    early = hvd.allreduce_async(torch.ones(3), name=name, op=hvd.Sum) if rank == 0 else None
    hvd.barrier()
    if early is None:
        early = hvd.allreduce_async(torch.ones(3), name=name, op=hvd.Sum)
    assert torch.equal(hvd.synchronize(early), torch.full((3,), float(size)))


def test_average_is_deprecated_and_refused_together_with_op(name: str, size: int) -> None:
    with pytest.warns(DeprecationWarning):
        summed = hvd.allreduce(torch.ones(1), average=False, name=name)
    assert summed.item() == size
    with pytest.warns(DeprecationWarning):
        assert hvd.allreduce(torch.ones(1), average=True, name=name).item() == 1
    with pytest.raises(ValueError):
        hvd.allreduce(torch.ones(1), average=True, op=hvd.Sum, name=name)


def test_threads_may_call_allreduce_concurrently(name: str, size: int) -> None:
    import threading

    outcomes: List[bool] = []

    def work(number: int) -> None:
        for _ in range(20):
            reduced = hvd.allreduce(torch.full((50,), float(number)), name=f"{name}.{number}", op=hvd.Sum)
            outcomes.append(bool(torch.equal(reduced, torch.full((50,), float(number * size)))))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [True] * 80


def test_named_and_refused_calls_do_not_shift_the_numbers_of_unnamed_calls(name: str, rank: int, size: int) -> None:
    if rank == 0:
        with pytest.raises(ValueError):
            hvd.broadcast(torch.ones(1), size + 5)
    early = hvd.allreduce_async(torch.ones(1), name=name) if rank == 0 else None
    assert hvd.allreduce(torch.ones(3), op=hvd.Sum).tolist() == [size] * 3
    assert hvd.broadcast(torch.tensor([rank]), 0).item() == 0
    hvd.synchronize(early if early is not None else hvd.allreduce_async(torch.ones(1), name=name))
