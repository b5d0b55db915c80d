"""Adasum compared with a NumPy model, which treats every tensor as one vector and combines ranks in pairs."""

from __future__ import annotations

from typing import Any, Callable, Iterator, List

import horovod.torch as hvd
import numpy as np
import pytest
import torch
from samples import FLOATS, INTEGERS

TOLERANCE = {torch.float16: 5e-3, torch.bfloat16: 4e-2, torch.float32: 1e-5, torch.float64: 1e-12}
COUNTS = [0, 1, 2, 3, 1001, 40_003, 300_001]


def combine(a: Any, b: Any) -> Any:
    dot, first, second = a @ b, a @ a, b @ b
    return (1 - dot / (2 * first) if first else 1) * a + (1 - dot / (2 * second) if second else 1) * b


def model(vectors: List[Any]) -> Any:
    """Combines neighbours first, then pairs of pairs."""
    while len(vectors) > 1:
        vectors = [combine(a, b) for a, b in zip(vectors[::2], vectors[1::2])]
    return vectors[0]


def vector(rank: int, count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(10_000 * rank + count)
    shared = torch.randn(count, generator=torch.Generator().manual_seed(count), dtype=torch.float64)
    # A part that is equal on all ranks, plus a part of this rank alone.
    return (shared + torch.randn(count, generator=generator, dtype=torch.float64)).to(dtype)


def expected(size: int, count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.from_numpy(model([vector(rank, count, dtype).to(torch.float64).numpy() for rank in range(size)]))


def check(result: torch.Tensor, wanted: torch.Tensor, dtype: torch.dtype) -> None:
    assert result.dtype == dtype and result.shape == wanted.shape
    assert torch.allclose(result.to(torch.float64), wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.fixture(autouse=True)
def power_of_two(size: int, request: pytest.FixtureRequest) -> Iterator[None]:
    if size & (size - 1) and not request.node.name.startswith("test_three"):
        pytest.skip("needs a power of two of ranks")
    yield


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_tensor_of_any_size_is_reduced_as_one_vector(dtype: torch.dtype, name: str, rank: int, size: int) -> None:
    for count in COUNTS:
        own = vector(rank, count, dtype)
        result = hvd.allreduce(own, op=hvd.Adasum, name=f"{name}.{count}")
        check(result, expected(size, count, dtype), dtype)
        assert torch.equal(own, vector(rank, count, dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_group_is_reduced_tensor_by_tensor(dtype: torch.dtype, name: str, rank: int, size: int) -> None:
    results = hvd.grouped_allreduce([vector(rank, count, dtype) for count in COUNTS], op=hvd.Adasum, name=name)
    for count, result in zip(COUNTS, results):
        check(result, expected(size, count, dtype), dtype)


def test_in_place_and_asynchronous_calls_match_the_model(name: str, rank: int, size: int) -> None:
    own = vector(rank, 1001)
    assert hvd.allreduce_(own, op=hvd.Adasum, name=name) is own
    check(own, expected(size, 1001), torch.float32)
    handles = [hvd.allreduce_async(vector(rank, n), op=hvd.Adasum, name=f"{name}.{n}") for n in range(60)]
    for count, handle in enumerate(handles):
        check(hvd.synchronize(handle), expected(size, count), torch.float32)


def test_repeated_and_fused_calls_give_the_same_bits_on_all_ranks(name: str, rank: int, size: int) -> None:
    counts = [7, 30_001, 1, 500]
    fused = hvd.grouped_allreduce([vector(rank, n) for n in counts], op=hvd.Adasum, name=name)
    for _ in range(3):
        alone = [hvd.allreduce(vector(rank, n), op=hvd.Adasum, name=f"{name}.{n}") for n in counts]
        assert all(torch.equal(one, other) for one, other in zip(alone, fused))
    for result in fused:
        gathered = hvd.allgather(result.unsqueeze(0))
        assert all(torch.equal(gathered[0], row) for row in gathered)


def test_the_result_does_not_depend_on_the_shape(name: str, rank: int, size: int) -> None:
    own = vector(rank, 60)
    flat = hvd.allreduce(own, op=hvd.Adasum, name=name)
    shaped = hvd.allreduce(own.reshape(3, 4, 5), op=hvd.Adasum, name=f"{name}.shaped")
    assert torch.equal(shaped, flat.reshape(3, 4, 5))
    scalar = hvd.allreduce(torch.tensor(3.0), op=hvd.Adasum, name=f"{name}.scalar")
    assert scalar.shape == () and scalar.item() == 3


def test_equal_vectors_are_averaged_and_orthogonal_vectors_added(name: str, rank: int, size: int) -> None:
    same = hvd.allreduce(torch.arange(10.0), op=hvd.Adasum, name=f"{name}.same")
    assert torch.equal(same, torch.arange(10.0))
    apart = hvd.allreduce(torch.eye(size)[rank] * 5, op=hvd.Adasum, name=f"{name}.apart")
    assert torch.equal(apart, torch.full((size,), 5.0))
    none = hvd.allreduce(torch.zeros(1000), op=hvd.Adasum, name=f"{name}.none")
    assert torch.equal(none, torch.zeros(1000))


def test_prescale_and_postscale_factors_multiply_the_result(name: str, rank: int, size: int) -> None:
    result = hvd.allreduce(vector(rank, 501), op=hvd.Adasum, name=name, prescale_factor=0.5, postscale_factor=3.0)
    check(result, 1.5 * expected(size, 501), torch.float32)


def test_fp16_compression_reduces_the_rounded_vectors(name: str, rank: int, size: int) -> None:
    result = hvd.allreduce(vector(rank, 501), op=hvd.Adasum, name=name, compression=hvd.Compression.fp16)
    assert result.dtype == torch.float32
    check(result.half(), expected(size, 501, torch.float16), torch.float16)


def test_a_joined_rank_contributes_zeros(name: str, rank: int, size: int) -> None:
    if rank != size - 1 or size == 1:
        result = hvd.allreduce(vector(rank, 3000), op=hvd.Adasum, name=name)
        vectors = [vector(r, 3000).to(torch.float64).numpy() for r in range(max(1, size - 1))]
        zeros = [np.zeros(3000)] if size > 1 else []
        check(result, torch.from_numpy(model(vectors + zeros)), torch.float32)
    hvd.join()


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_tensors_are_refused(dtype: torch.dtype, name: str) -> None:
    for call in (hvd.allreduce, hvd.allreduce_, hvd.allreduce_async):
        with pytest.raises(ValueError, match="Adasum.*float16"):
            call(torch.ones(2).to(dtype), op=hvd.Adasum, name=name)
    with pytest.raises(ValueError, match="Adasum"):
        hvd.grouped_allreduce([torch.ones(2).to(dtype)], op=hvd.Adasum, name=name)
    assert torch.equal(hvd.allreduce(torch.ones(2), name=name), torch.ones(2))


def test_different_reductions_on_different_ranks_fail(name: str, rank: int, size: int) -> None:
    if size == 1:
        return
    with pytest.raises(hvd.HorovodInternalError, match="adasum allreduce"):
        hvd.allreduce(torch.ones(2), op=hvd.Adasum if rank == 0 else hvd.Sum, name=name)
    assert torch.equal(hvd.allreduce(torch.ones(2), op=hvd.Adasum, name=f"{name}.after"), torch.ones(2))


def test_the_gradient_is_reduced_with_adasum(name: str, rank: int, size: int) -> None:
    x = vector(rank, 11).requires_grad_()
    hvd.allreduce(x, op=hvd.Adasum, name=name).backward(vector(rank, 11))
    assert x.grad is not None
    check(x.grad, expected(size, 11), torch.float32)


def test_three_ranks_are_refused_and_other_reductions_still_work(name: str, size: int) -> None:
    if size & (size - 1) == 0:
        return
    calls: List[Callable[..., Any]] = [hvd.allreduce, hvd.allreduce_, hvd.allreduce_async]
    for call in calls:
        with pytest.raises(NotImplementedError, match=f"power of two, not {size}"):
            call(torch.ones(2), op=hvd.Adasum, name=name)
    with pytest.raises(NotImplementedError, match="power of two"):
        hvd.grouped_allreduce([torch.ones(2)], op=hvd.Adasum, name=name)
    parameter = torch.nn.Parameter(torch.ones(1))
    with pytest.raises(NotImplementedError, match="power of two"):
        hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=0.1), op=hvd.Adasum)
    assert torch.equal(hvd.allreduce(torch.ones(2), op=hvd.Sum, name=name), torch.full((2,), float(size)))


# ---- the optimizer ----------------------------------------------------------------------------------------------


def make_model() -> torch.nn.Sequential:
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))


def batch(rank: int, step: int) -> torch.Tensor:
    return torch.randn(8, 6, generator=torch.Generator().manual_seed(100 * step + rank))


def local_deltas(net: torch.nn.Module, optimizer: torch.optim.Optimizer, rank: int, step: int) -> List[torch.Tensor]:
    before = [parameter.detach().clone() for parameter in net.parameters()]
    optimizer.zero_grad()
    net(batch(rank, step)).square().mean().backward()
    optimizer.step()
    return [after.detach() - start for after, start in zip(net.parameters(), before)]


KINDS = [
    lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01),
    lambda parameters: torch.optim.Adam(parameters, lr=0.01),
]


@pytest.mark.parametrize("kind", KINDS, ids=["sgd", "adam"])
def test_the_optimizer_combines_the_changes_of_local_steps(kind: Any, rank: int, size: int) -> None:
    net = make_model()
    optimizer = hvd.DistributedOptimizer(kind(net.parameters()), net.named_parameters(), op=hvd.Adasum)
    # Every rank also simulates all ranks: each has its own optimizer state, and all have equal parameters.
    simulated_nets = [make_model() for _ in range(size)]
    optimizers = [kind(simulated.parameters()) for simulated in simulated_nets]
    for step in range(4):
        optimizer.zero_grad()
        net(batch(rank, step)).square().mean().backward()
        optimizer.step()
        before = [parameter.detach().clone() for parameter in simulated_nets[0].parameters()]
        deltas = [local_deltas(simulated_nets[r], optimizers[r], r, step) for r in range(size)]
        for index, start in enumerate(before):
            delta = model([changes[index].double().flatten().numpy() for changes in deltas])
            after = start + torch.from_numpy(delta).reshape(start.shape).float()
            for simulated in simulated_nets:
                with torch.no_grad():
                    list(simulated.parameters())[index].copy_(after)
            assert torch.allclose(list(net.parameters())[index], after, rtol=1e-4, atol=1e-6)


def test_all_ranks_hold_the_same_parameters_after_compressed_steps(rank: int, size: int) -> None:
    net = make_model()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(net.parameters(), lr=0.1), compression=hvd.Compression.fp16, op=hvd.Adasum
    )
    for step in range(3):
        optimizer.zero_grad()
        net(batch(rank, step)).square().mean().backward()
        optimizer.step()
    parameters = torch.cat([parameter.detach().flatten() for parameter in net.parameters()]).unsqueeze(0)
    gathered = hvd.allgather(parameters)
    assert all(torch.equal(row, gathered[0]) for row in gathered)


def test_two_backward_passes_per_step_equal_one_pass_over_both_batches(rank: int, size: int) -> None:
    nets = make_model(), make_model()
    split = hvd.DistributedOptimizer(
        torch.optim.SGD(nets[0].parameters(), lr=0.1), backward_passes_per_step=2, op=hvd.Adasum
    )
    whole = hvd.DistributedOptimizer(torch.optim.SGD(nets[1].parameters(), lr=0.1), op=hvd.Adasum)
    for step in range(2):
        split.zero_grad()
        for half in (0, 1):
            nets[0](batch(rank, 2 * step + half)).square().mean().backward()
        split.step()
        whole.zero_grad()
        sum(nets[1](batch(rank, 2 * step + half)).square().mean() for half in (0, 1)).backward()  # type: ignore
        whole.step()
    for one, other in zip(nets[0].parameters(), nets[1].parameters()):
        assert torch.allclose(one, other, atol=1e-6)


def test_a_step_with_a_closure_keeps_parameters_without_a_gradient(rank: int, size: int) -> None:
    net, unused = make_model(), torch.nn.Parameter(torch.ones(3))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([*net.parameters(), unused], lr=0.1), op=hvd.Adasum)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = net(batch(rank, 0)).square().mean()
        loss.backward()
        return loss

    before = [parameter.detach().clone() for parameter in net.parameters()]
    assert optimizer.step(closure).item() > 0
    assert all(not torch.equal(one, other) for one, other in zip(net.parameters(), before))
    assert torch.equal(unused, torch.ones(3))


def test_the_adasum_optimizer_checks_its_options_and_the_order_of_calls(rank: int, size: int) -> None:
    if size == 1:
        return
    net = make_model()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=0.1), op=hvd.Adasum)
    assert type(optimizer).__name__ == "SGD" and isinstance(optimizer, torch.optim.SGD)
    net(batch(rank, 0)).square().mean().backward()
    before = [parameter.detach().clone() for parameter in net.parameters()]
    optimizer.synchronize()
    assert all(torch.equal(one, other) for one, other in zip(net.parameters(), before))
    with pytest.raises(AssertionError):
        optimizer.zero_grad()
    with pytest.raises(AssertionError), optimizer.skip_synchronize():
        pass
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.ones(()))
    with pytest.raises(ValueError, match="before a GradScaler unscales"):
        scaler.step(optimizer)
    optimizer.step()
    hvd.broadcast_optimizer_state(optimizer, 0)
    with pytest.raises(NotImplementedError):
        hvd.DistributedOptimizer(
            torch.optim.SGD(net.parameters(), lr=0.1), op=hvd.Adasum, process_set=hvd.ProcessSet([0])
        )
    with pytest.raises(ValueError):
        hvd.DistributedOptimizer(
            torch.optim.SGD(net.parameters(), lr=0.1), op=hvd.Adasum, gradient_predivide_factor=2.0
        )
