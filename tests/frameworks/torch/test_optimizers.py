"""Every class of torch.optim can be wrapped: several ranks step like one process on the whole batch, and agree."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple, Type

import horovod.torch as hvd
import pytest
import torch
from newer_versions import needs

CLASSES: Dict[str, Type[torch.optim.Optimizer]] = {
    name: each
    for name, each in sorted(vars(torch.optim).items())
    if isinstance(each, type) and issubclass(each, torch.optim.Optimizer) and each is not torch.optim.Optimizer
}
STEPS = 4


def make(name: str, parameters: Any, **options: Any) -> torch.optim.Optimizer:
    # With its default options, LBFGS diverges on this model and amplifies rounding errors.
    usual: Dict[str, Any] = {"SGD": {"lr": 0.1}, "LBFGS": {"lr": 0.05, "max_iter": 4}}.get(name, {})
    return CLASSES[name](parameters, **{**usual, **options})


class Network(torch.nn.Module):
    """Matrices only (Muon takes no others), and an embedding whose gradient may be sparse."""

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.table = torch.nn.Embedding(8, 4, sparse=sparse)
        self.first = torch.nn.Linear(4, 6, bias=False)
        self.second = torch.nn.Linear(6, 2, bias=False)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(self.table(words))))  # type: ignore[no-any-return]


def batch(rank: int, step: int) -> torch.Tensor:
    return torch.randint(0, 8, (6,), generator=torch.Generator().manual_seed(100 * step + rank))


def parameters_of(name: str, model: Network) -> List[Tuple[str, torch.nn.Parameter]]:
    """All parameters, or only those with sparse gradients for a class that takes no dense ones."""
    named = list(model.named_parameters())
    return named[:1] if name == "SparseAdam" else named


def train(optimizer: Any, loss_of: Callable[[int], torch.Tensor]) -> None:
    for step in range(STEPS):

        def closure(step: int = step) -> torch.Tensor:
            optimizer.zero_grad()
            loss = loss_of(step)
            loss.backward()
            return loss

        if isinstance(optimizer, torch.optim.LBFGS):  # evaluates the model several times a step
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()


@pytest.mark.parametrize("name", list(CLASSES))
def test_a_wrapped_optimizer_of_each_class_steps_like_one_process(name: str, rank: int, size: int) -> None:
    model, expected = (Network(sparse=name == "SparseAdam") for _ in range(2))
    inner = make(name, [each for _, each in parameters_of(name, model)])
    optimizer = hvd.DistributedOptimizer(inner, parameters_of(name, model))
    assert isinstance(optimizer, CLASSES[name]) and type(optimizer).__name__ == name
    reference = make(name, [each for _, each in parameters_of(name, expected)])

    # LBFGS also uses the loss, so every rank must see the loss of the whole batch.
    def own(step: int) -> torch.Tensor:
        loss = model(batch(rank, step)).square().mean()
        mean = hvd.allreduce(loss.detach(), name="loss")
        return loss + (mean - loss.detach())

    def whole(step: int) -> torch.Tensor:
        return sum(expected(batch(other, step)).square().mean() for other in range(size)) / size  # type: ignore[return-value]

    train(optimizer, own)
    train(reference, whole)
    # Optimizers that divide by the magnitude of a gradient amplify the rounding errors of small gradients.
    close = {"rtol": 2e-3, "atol": 2e-3}
    for (key, value), other in zip(model.named_parameters(), expected.parameters()):
        torch.testing.assert_close(value, other, **close, msg=lambda text, key=key: f"{key}: {text}")
        everywhere = hvd.allgather(value.detach().unsqueeze(0), name=f"{name}.{key}")
        assert all(torch.equal(each, value) for each in everywhere)


# A step with gradients of zero would change weights or states of these, too.
WITH_OPTIONS = [
    ("SGD", {"momentum": 0.9, "weight_decay": 0.1, "dampening": 0.5}),
    ("SGD", {"momentum": 0.9, "nesterov": True, "maximize": True}),
    ("Adam", {"weight_decay": 0.1, "amsgrad": True}),
    ("RMSprop", {"momentum": 0.9, "centered": True}),
]


@pytest.mark.parametrize(
    "name, options", [*((each, {}) for each in CLASSES if each != "LBFGS"), *WITH_OPTIONS], ids=str
)
def test_broadcasting_the_state_of_a_new_optimizer_changes_nothing(
    name: str, options: Dict[str, Any], rank: int, size: int
) -> None:
    model, expected = (Network(sparse=name == "SparseAdam") for _ in range(2))
    inner = make(name, [each for _, each in parameters_of(name, model)], **options)
    reference = make(name, [each for _, each in parameters_of(name, expected)], **options)
    inner.register_step_pre_hook(lambda *_: pytest.fail("a step was taken"))
    optimizer = hvd.DistributedOptimizer(inner, parameters_of(name, model))
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert str(optimizer.state_dict()) == str(reference.state_dict())
    inner._optimizer_step_pre_hooks.clear()  # type: ignore[attr-defined]
    train(optimizer, lambda step: model(batch(0, step)).square().mean())
    train(reference, lambda step: expected(batch(0, step)).square().mean())
    for value, other in zip(model.parameters(), expected.parameters()):
        torch.testing.assert_close(value, other, rtol=1e-5, atol=1e-6)


def test_the_state_of_an_optimizer_keeps_its_own_types_when_it_is_broadcast(rank: int, size: int) -> None:
    parameter = torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
    optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9)
    if rank == 0:
        optimizer.state[parameter] = {"momentum_buffer": torch.full((3,), 1 / 3)}
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert torch.equal(optimizer.state[parameter]["momentum_buffer"], torch.full((3,), 1 / 3))


@needs("torch", "2.4", "fused optimizers on CPUs")
def test_the_state_of_an_optimizer_keeps_its_strides_when_it_is_broadcast(rank: int, size: int) -> None:
    """A fused step takes for granted that a state has the strides of its parameter."""
    parameter = torch.nn.Parameter(torch.ones(2, 3).t())
    optimizer = torch.optim.SGD([parameter], lr=1.0, momentum=0.5, fused=True)
    values = torch.arange(6.0).reshape(2, 3).t()
    if rank == 0:
        optimizer.state[parameter] = {"momentum_buffer": values.clone()}
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert torch.equal(optimizer.state[parameter]["momentum_buffer"], values)
    parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    assert torch.equal(parameter, 1 - 0.5 * values)


def test_a_root_without_state_clears_that_of_the_other_ranks(rank: int, size: int) -> None:
    model = Network(False)
    optimizer = torch.optim.Adam(model.parameters())
    if rank != 0:
        train(optimizer, lambda step: model(batch(rank, step)).square().mean())
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert not optimizer.state_dict()["state"]


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
@pytest.mark.parametrize("form", ["tensor", "float", "either"])
def test_lbfgs_calls_the_closure_as_often_as_in_one_process(form: str, line_search: Any, rank: int, size: int) -> None:
    """Each rank's closure returns the loss of its own batch."""
    model, expected = Network(False).double(), Network(False).double()
    options: Dict[str, Any] = {"lr": 1.0 if line_search else 0.05, "max_iter": 6, "line_search_fn": line_search}
    optimizer = hvd.DistributedOptimizer(torch.optim.LBFGS(model.parameters(), **options), model.named_parameters())
    reference = torch.optim.LBFGS(expected.parameters(), **options)
    calls = {"ranks": 0, "one process": 0}

    def own(step: int) -> Any:
        optimizer.zero_grad()
        calls["ranks"] += 1
        loss = model(batch(rank, step)).square().mean()
        loss.backward()
        is_tensor = form == "tensor" or (form == "either" and rank == 0)
        return loss if is_tensor else loss.item()

    def whole(step: int) -> Any:
        reference.zero_grad()
        calls["one process"] += 1
        loss: Any = sum(expected(batch(other, step)).square().mean() for other in range(size)) / size
        loss.backward()
        return loss

    for step in range(STEPS):
        returned = optimizer.step(lambda step=step: own(step))
        assert float(returned) == pytest.approx(float(reference.step(lambda step=step: whole(step))), rel=1e-4)
        assert calls["ranks"] == calls["one process"]
    for value, other in zip(model.parameters(), expected.parameters()):
        torch.testing.assert_close(value, other, rtol=1e-4, atol=1e-6)


def test_lbfgs_needs_a_loss(rank: int) -> None:
    model = Network(False)
    optimizer = hvd.DistributedOptimizer(torch.optim.LBFGS(model.parameters()), model.named_parameters())
    with pytest.raises(TypeError, match="None" if hvd.size() > 1 else ""):
        optimizer.step(lambda: model(batch(rank, 0)).square().mean().backward())


def test_lbfgs_does_not_go_together_with_adasum(rank: int, size: int) -> None:
    if size == 1 or size & (size - 1):
        pytest.skip("Adasum needs a power of two")
    optimizer = torch.optim.LBFGS(Network(False).parameters())
    with pytest.raises(ValueError, match="one step for all of them; pass op=Average"):
        hvd.DistributedOptimizer(optimizer, op=hvd.Adasum)
    assert type(optimizer) is torch.optim.LBFGS


def test_other_optimizers_return_what_the_closure_returns(rank: int) -> None:
    """Ranks may return different types: nothing is sent for the loss."""
    model = Network(False)
    optimizer: Any = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    returned = [None, rank + 0.5, torch.tensor(rank)][rank % 3]

    def closure() -> Any:
        model(batch(rank, 0)).square().mean().backward()
        return returned

    assert optimizer.step(closure) is returned
    first = model.first.weight.detach()
    assert all(torch.equal(each, first) for each in hvd.allgather(first.unsqueeze(0), name="weights"))


def clip_whole(parameters: Any) -> torch.Tensor:
    return torch.nn.utils.clip_grad_norm_(parameters, 0.05)


def clip_values(parameters: Any) -> torch.Tensor:
    torch.nn.utils.clip_grad_value_(parameters, 0.01)
    return torch.zeros(())


@pytest.mark.parametrize("clip", [clip_whole, clip_values])
def test_gradients_can_be_clipped_between_synchronize_and_step(
    clip: Callable[[Any], Any], rank: int, size: int
) -> None:
    model, expected = Network(False), Network(False)
    optimizer: Any = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9), model.named_parameters()
    )
    reference = torch.optim.SGD(expected.parameters(), lr=0.5, momentum=0.9)
    for step in range(STEPS):
        optimizer.zero_grad()
        model(batch(rank, step)).square().mean().backward()
        optimizer.synchronize()
        norm = clip(model.parameters())
        with optimizer.skip_synchronize():
            optimizer.step()

        reference.zero_grad()
        (sum(expected(batch(other, step)).square().mean() for other in range(size)) / size).backward()  # type: ignore[union-attr]
        torch.testing.assert_close(norm, clip(expected.parameters()))
        reference.step()
    for value, other in zip(model.parameters(), expected.parameters()):
        torch.testing.assert_close(value, other)
