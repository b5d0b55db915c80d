"""Broadcasts of parameters and optimizer states, and exchanges of objects."""

from __future__ import annotations

import copy
from typing import Any, Callable, Dict

import horovod.torch as hvd
import pytest
import torch
from farandole.common import arrays


def network(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2))


def assert_same_everywhere(tensor: torch.Tensor, name: str) -> None:
    gathered = hvd.allgather(tensor.detach().reshape(1, -1).contiguous(), name=name)
    assert all(torch.equal(row, gathered[0]) for row in gathered)


@pytest.mark.parametrize("form", ["state_dict", "named", "tensors", "iterator"])
def test_broadcast_parameters_copies_the_values_of_the_root(form: str, rank: int, size: int) -> None:
    model = network(rank)
    root = size - 1
    expected = network(root).state_dict()
    parameters: Any = {
        "state_dict": model.state_dict(),
        "named": list(model.state_dict().items()),
        "tensors": list(model.state_dict().values()),
        "iterator": iter(list(model.state_dict().items())),
    }[form]
    hvd.broadcast_parameters(parameters, root)
    for key, value in model.state_dict().items():
        assert torch.equal(value, expected[key])


def test_channels_last_parameters_are_broadcast(rank: int) -> None:
    tensor = torch.full((2, 3, 4, 5), float(rank)).to(memory_format=torch.channels_last)
    hvd.broadcast_parameters({"x": tensor}, 0)
    assert torch.equal(tensor, torch.zeros(2, 3, 4, 5))


def test_broadcast_parameters_refuses_other_types() -> None:
    for bad in (5, "text", [1, 2], [("a", torch.ones(1)), 3]):
        with pytest.raises(ValueError):
            hvd.broadcast_parameters(bad, 0)


@pytest.mark.parametrize(
    "value",
    [None, 7, "text", {"a": [1, 2, {"b": (3,)}]}, b"", torch.arange(5), list(range(100_000)), ValueError("x")],
    ids=lambda value: type(value).__name__,
)
def test_broadcast_object_returns_the_object_of_the_root(value: Any, rank: int, size: int) -> None:
    root = size - 1
    received = hvd.broadcast_object(value if rank == root else None, root)
    assert type(received) is type(value)
    assert repr(received) == repr(value)


def test_broadcast_object_accepts_functions(rank: int) -> None:
    offset = 10 + rank
    add: Callable[[int], int] = hvd.broadcast_object(lambda x: x + offset, 0, name="function")
    assert add(1) == 11


def test_allgather_object_returns_the_objects_of_all_ranks(rank: int, size: int) -> None:
    gathered = hvd.allgather_object({"rank": rank, "padding": "x" * 1000 * rank})
    assert [received["rank"] for received in gathered] == list(range(size))
    assert [len(received["padding"]) for received in gathered] == [1000 * other for other in range(size)]


def test_the_length_of_an_object_travels_in_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = {}

    def spied(request: Any, name: str, array: Any, *others: Any) -> Any:
        lengths[name] = array.dtype
        return start(request, name, array, *others)

    start = arrays.start
    monkeypatch.setattr(arrays, "start", spied)
    assert hvd.broadcast_object([1, 2], 0, name="object") == [1, 2]
    assert lengths["object.sz"] == "int64"


class Zeros:
    """Takes ``count`` bytes when it is pickled, and is unpickled as their number."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __reduce__(self) -> Any:
        return len, (bytes(self.count),)


@pytest.mark.slow
@pytest.mark.skipif("int(os.environ.get('HOROVOD_SIZE', '1')) > 2", reason="takes 6 GB of memory for each rank")
def test_objects_of_more_than_2_gib_are_sent(rank: int, size: int) -> None:
    count = 2**31 + 5
    received = hvd.broadcast_object(Zeros(count), 0)  # the root gets its own object back
    assert rank == 0 or received == count
    gathered = hvd.allgather_object(Zeros(count if rank == 0 else 7))
    assert gathered == [count, *[7] * (size - 1)]


OPTIMIZERS: Dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.1),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01, amsgrad=True),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
    "Adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=0.1),
    "RMSprop": lambda parameters: torch.optim.RMSprop(parameters, lr=0.01),
    "Adamax": lambda parameters: torch.optim.Adamax(parameters, lr=0.01),
}


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, seed: int) -> None:
    torch.manual_seed(seed)
    optimizer.zero_grad()
    model(torch.randn(6, 4)).square().sum().backward()
    optimizer.step()


@pytest.mark.parametrize("kind", list(OPTIMIZERS))
@pytest.mark.parametrize("ranks_with_state", ["all", "root", "others", "none"])
def test_broadcast_optimizer_state_copies_the_state_of_the_root(
    kind: str, ranks_with_state: str, rank: int, size: int
) -> None:
    root = 0
    model = network(0)
    optimizer = OPTIMIZERS[kind](model.parameters())
    if {"all": True, "root": rank == root, "others": rank != root, "none": False}[ranks_with_state]:
        for seed in range(rank + 2):
            step(model, optimizer, seed)
    optimizer.param_groups[0]["lr"] = 0.5 + rank
    before = copy.deepcopy(model.state_dict())
    expected = hvd.broadcast_object(optimizer.state_dict(), root, name="expected")
    hvd.broadcast_optimizer_state(optimizer, root)
    assert optimizer.param_groups[0]["lr"] == 0.5 + root
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    state = optimizer.state_dict()["state"]
    for index, entries in expected["state"].items():
        for key, value in entries.items():
            if isinstance(value, torch.Tensor):
                assert torch.equal(state[index][key], value)
            else:
                assert state[index][key] == value
    hvd.broadcast_parameters(model.state_dict(), root)
    step(model, optimizer, 5)
    for key, value in model.state_dict().items():
        assert_same_everywhere(value.to(torch.float64), f"after.{key}")


def test_the_state_of_a_distributed_optimizer_is_broadcast(rank: int, size: int) -> None:
    model = network(rank)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.Adam(model.parameters(), lr=0.01 * (rank + 1)), named_parameters=model.named_parameters()
    )
    hvd.broadcast_parameters(model.state_dict(), 0)
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert optimizer.param_groups[0]["lr"] == 0.01
    for seed in range(3):
        step(model, optimizer, seed + rank)
    for key, value in model.named_parameters():
        assert_same_everywhere(value, f"wrapped.{key}")


def test_broadcast_optimizer_state_refuses_lbfgs() -> None:
    with pytest.raises(ValueError):
        hvd.broadcast_optimizer_state(torch.optim.LBFGS(network(0).parameters()), 0)


def test_elastic_state_saves_restores_and_syncs(rank: int, size: int) -> None:
    model = network(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    sampler = hvd.elastic.ElasticSampler(list(range(10)), shuffle=False)
    state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=rank, seen=[rank])
    initial = copy.deepcopy(model.state_dict())
    step(model, optimizer, 3)
    state.epoch = 9
    state.seen.append(5)
    state.restore()
    assert all(torch.equal(value, initial[key]) for key, value in model.state_dict().items())
    assert (state.epoch, state.seen) == (rank, [rank])
    state.sync()
    assert (state.epoch, state.seen) == (0, [0])
    root = network(0).state_dict()
    assert all(torch.equal(value, root[key]) for key, value in model.state_dict().items())
    state.commit()

    @hvd.elastic.run
    def train(running: Any, extra: int) -> int:
        return int(running.epoch) + extra

    assert train(state, 4) == 4


def test_the_elastic_sampler_distributes_the_remaining_samples(rank: int, size: int) -> None:
    sampler = hvd.elastic.ElasticSampler(list(range(10)), shuffle=False)
    everything = list(range(10)) + list(range(-10 % size))
    assert list(sampler) == everything[rank::size]
    assert len(sampler) == len(list(sampler))
    sampler.record_batch(0, 1)
    sampler.load_state_dict(sampler.state_dict())
    left = list(range(size, 10))
    left += left[: -len(left) % size]
    assert list(sampler) == left[rank::size]
    shuffled = hvd.elastic.ElasticSampler(list(range(10)), seed=3)
    shuffled.set_epoch(1)
    samples = [sample for part in hvd.allgather_object(list(shuffled), name="dealt") for sample in part]
    assert set(samples) == set(range(10))
