"""Parameters that are added late, frozen, unfrozen or unused: several ranks train like one process on the whole
batch."""

from __future__ import annotations

from typing import Any, Callable, List

import horovod.torch as hvd
import pytest
import torch
from newer_versions import needs

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")
STEPS = 6
DECAY = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}


class Network(torch.nn.Module):
    """A body, a head and a branch that is used where ``branching`` says so."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(11)
        self.body = torch.nn.Linear(4, 6)
        self.head = torch.nn.Linear(6, 2)
        self.branch = torch.nn.Linear(6, 2)
        self.branching = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.body(x))
        return self.head(hidden) + (self.branch(hidden) if self.branching else 0.0)  # type: ignore[no-any-return]


def batch(rank: int, step: int) -> torch.Tensor:
    return torch.randn(6, 4, generator=torch.Generator().manual_seed(100 * step + rank))


Changes = Callable[[Network, Any, int], None]
"""A change to the model and the optimizer before a step."""


def together(rank: int, change: Changes, first: Callable[[Network], List[Any]], **options: Any) -> Network:
    model = Network()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(first(model), **DECAY), **options)
    for step in range(STEPS):
        optimizer.zero_grad()
        change(model, optimizer, step)
        for number in range(options.get("backward_passes_per_step", 1)):
            model(batch(rank, 10 * step + number)).square().mean().backward()
        optimizer.step()
    return model


def alone(size: int, change: Changes, first: Callable[[Network], List[Any]], passes: int = 1) -> Network:
    model = Network()
    optimizer = torch.optim.SGD(first(model), **DECAY)
    for step in range(STEPS):
        optimizer.zero_grad()
        change(model, optimizer, step)
        for number in range(passes):
            sum(model(batch(rank, 10 * step + number)).square().mean() for rank in range(size)).div(size).backward()  # type: ignore[union-attr]
        optimizer.step()
    return model


def assert_same(model: Network, expected: Network, size: int) -> None:
    for (name, value), other in zip(model.named_parameters(), expected.parameters()):
        torch.testing.assert_close(value, other, rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")
    flat = torch.cat([each.detach().reshape(-1) for each in model.parameters()])
    everywhere = hvd.allgather(flat.unsqueeze(0), name="parameters")
    assert all(torch.equal(each, flat) for each in everywhere)


def body_and_head(model: Network) -> List[Any]:
    return [*model.body.parameters(), *model.head.parameters()]


def head_is_added_late(model: Network, optimizer: Any, step: int) -> None:
    if step == 2:
        optimizer.add_param_group({"params": model.head.parameters(), "lr": 0.05})


def body_is_unfrozen(model: Network, optimizer: Any, step: int) -> None:
    model.body.requires_grad_(step >= 2)


def body_is_frozen(model: Network, optimizer: Any, step: int) -> None:
    model.body.requires_grad_(step < 2)


def body_alternates(model: Network, optimizer: Any, step: int) -> None:
    model.body.requires_grad_(step % 2 == 1)


def head_is_added_frozen(model: Network, optimizer: Any, step: int) -> None:
    model.head.requires_grad_(step >= 4)
    head_is_added_late(model, optimizer, step)


@pytest.mark.parametrize("options", [{}, {"backward_passes_per_step": 2}, {"groups": 2}], ids=str)
@pytest.mark.parametrize(
    "change, first",
    [
        (head_is_added_late, lambda model: list(model.body.parameters())),
        (head_is_added_frozen, lambda model: list(model.body.parameters())),
        (body_is_unfrozen, body_and_head),
        (body_is_frozen, body_and_head),
        (body_alternates, body_and_head),
    ],
    ids=lambda each: each.__name__.strip("<>"),
)
def test_training_with_changing_parameters_matches_one_process(
    change: Changes, first: Any, options: Any, rank: int, size: int
) -> None:
    expected = alone(size, change, first, options.get("backward_passes_per_step", 1))
    assert_same(together(rank, change, first, **options), expected, size)


def frozen_from_the_start(model: Network, optimizer: Any, step: int) -> None:
    if step == 0:
        model.body.requires_grad_(False)
    if step == 3:
        model.body.requires_grad_(True)


def test_parameters_that_are_frozen_at_wrapping_train_after_they_are_unfrozen(rank: int, size: int) -> None:
    def first(model: Network) -> List[Any]:
        frozen_from_the_start(model, None, 0)
        return body_and_head(model)

    expected = alone(size, frozen_from_the_start, first)
    assert_same(together(rank, frozen_from_the_start, first), expected, size)


@several_ranks
def test_ranks_that_do_not_use_a_branch_contribute_zeros(rank: int, size: int) -> None:
    """In one process, the samples of those ranks also add zeros to the branch's mean gradient of the whole batch."""
    model, expected = Network(), Network()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), **DECAY), model.named_parameters())
    reference = torch.optim.SGD(expected.parameters(), **DECAY)
    for step in range(STEPS):
        optimizer.zero_grad()
        model.branching = rank == step % size
        model(batch(rank, step)).square().mean().backward()
        optimizer.step()

        reference.zero_grad()
        for other in range(size):
            expected.branching = other == step % size
            (expected(batch(other, step)).square().mean() / size).backward()
        reference.step()
    assert_same(model, expected, size)


@needs("torch", "2.6", "optimizers of named parameters")
def test_parameters_that_are_added_late_keep_their_names(rank: int, size: int) -> None:
    model = Network()
    named = [(f"body.{name}", each) for name, each in model.body.named_parameters()]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(named, **DECAY), named)
    late = [(f"late.{name}", each) for name, each in model.head.named_parameters()]
    optimizer.add_param_group({"params": late})
    model(batch(rank, 0)).square().mean().backward()
    with pytest.raises(AssertionError, match="backward_passes_per_step.* The parameter is (late|body)\\.(weight|bias)"):
        model(batch(rank, 1)).square().mean().backward()
    optimizer.synchronize()  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="late.weight"):
        optimizer.add_param_group({"params": [("late.weight", torch.nn.Parameter(torch.ones(1)))]})
    assert len(optimizer.param_groups) == 2


@several_ranks
@needs("torch", "2.6", "optimizers of named parameters")
def test_late_parameters_whose_shapes_differ_between_ranks_are_named(rank: int, size: int) -> None:
    model = Network()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([("known", model.head.bias)], lr=0.1), [("known", model.head.bias)]
    )
    extra = torch.nn.Parameter(torch.ones(2 + rank))
    optimizer.add_param_group({"params": [("extra", extra)]})
    (extra.sum() + model.head.bias.sum()).backward()
    with pytest.raises(hvd.HorovodInternalError, match="extra.*rank 0 has \\[2\\].*rank 1 has \\[3\\]"):
        optimizer.step()
    assert hvd.allreduce(torch.ones(1), name="after", op=hvd.Sum).item() == size


def test_weight_decay_does_not_change_a_frozen_parameter(rank: int) -> None:
    model = Network()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), **DECAY), model.named_parameters())
    model.body.requires_grad_(False)
    before = model.body.weight.clone()
    model(batch(rank, 0)).square().mean().backward()
    optimizer.step()
    assert torch.equal(model.body.weight, before)
    assert model.body.weight.grad is None
