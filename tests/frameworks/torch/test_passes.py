"""Backward passes of every kind are counted as one process would have them: left over, nested, and with a graph."""

from __future__ import annotations

import copy
import io
import pickle
import threading
from typing import Any, Callable, Dict, List

import horovod.torch as hvd
import pytest
import torch
from farandole.torch import parameter_hook
from newer_versions import needs
from torch.utils.checkpoint import checkpoint

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")
BATCHES = 5


def batch(rank: int, number: int) -> torch.Tensor:
    return torch.randn(6, 4, generator=torch.Generator().manual_seed(10 * number + rank))


def network() -> torch.nn.Module:
    torch.manual_seed(5)
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))


def assert_same(model: torch.nn.Module, expected: torch.nn.Module) -> None:
    for (name, value), other in zip(model.named_parameters(), expected.parameters()):
        torch.testing.assert_close(value, other, rtol=1e-4, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}")
        everywhere = hvd.allgather(value.detach().unsqueeze(0), name=f"ends.{name}")
        assert all(torch.equal(each, value) for each in everywhere)


def clear(model: torch.nn.Module, optimizer: Any, manner: str) -> None:
    cleared = model if manner.startswith("model") else optimizer
    cleared.zero_grad(set_to_none=not manner.endswith("zeros"))


def train_with_remainder(
    model: torch.nn.Module, optimizer: Any, manner: str, passes: int, loss_of: Callable[[int], torch.Tensor]
) -> None:
    """Epochs of five batches, with a step after every second or third; the rest of an epoch is dropped or stepped."""
    for epoch in range(3):
        clear(model, optimizer, manner)
        for number in range(BATCHES):
            loss_of(epoch * BATCHES + number).backward()
            is_last = number + 1 == BATCHES
            if (number + 1) % passes == 0 or (is_last and "stepped" in manner):
                optimizer.step()
                clear(model, optimizer, manner)


@pytest.mark.parametrize("manner", ["model", "model zeros"])
def test_a_batch_may_be_dropped_while_a_group_waits_for_an_unused_parameter(manner: str, rank: int) -> None:
    model, expected = network(), network()
    optimizer: Any = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters(), groups=1
    )
    plain = torch.optim.SGD(expected.parameters(), lr=0.1)
    for _ in range(2):
        model[2](torch.ones(3, 4)).square().mean().backward()  # without the first layer
        clear(model, optimizer, manner)
        for each, stepped in ((model, optimizer), (expected, plain)):
            each(batch(0, 1)).square().mean().backward()
            stepped.step()
            stepped.zero_grad()
    assert_same(model, expected)


MANNERS = ["optimizer stepped", "optimizer", "optimizer zeros", "model", "model zeros", "model stepped"]


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("passes", [2, 3])
@pytest.mark.parametrize("groups", [None, 1])
def test_batches_that_are_left_over_count_no_more_after_zero_grad(
    groups: Any, passes: int, manner: str, rank: int, size: int
) -> None:
    model, expected = network(), network()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        model.named_parameters(),
        backward_passes_per_step=passes,
        groups=groups,
    )
    plain = torch.optim.SGD(expected.parameters(), lr=0.1, momentum=0.9)

    def own(number: int) -> torch.Tensor:
        return model(batch(rank, number)).square().mean()  # type: ignore[no-any-return]

    def whole(number: int) -> torch.Tensor:
        return sum(expected(batch(other, number)).square().mean() for other in range(size)) / size  # type: ignore[return-value]

    train_with_remainder(model, optimizer, manner, passes, own)
    train_with_remainder(expected, plain, manner, passes, whole)
    assert_same(model, expected)


def test_left_over_batches_of_a_sparse_gradient_count_no_more(rank: int, size: int) -> None:
    table = torch.nn.Embedding(4, 2, sparse=True)
    start = table.weight.detach().clone()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(table.parameters(), lr=1.0), table.named_parameters(), backward_passes_per_step=2
    )
    hvd.broadcast_parameters(table.state_dict(), 0)
    start = table.weight.detach().clone()
    table(torch.tensor([0])).sum().backward()
    table.zero_grad(set_to_none=False)
    for _ in range(2):
        table(torch.tensor([1])).sum().backward()
    optimizer.step()
    assert (start - table.weight.detach())[:, 0].tolist() == pytest.approx([0.0, 2.0, 0.0, 0.0])


def test_passes_count_anew_after_their_number_has_changed(rank: int, size: int) -> None:
    model, expected = network(), network()
    optimizer: Any = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    plain = torch.optim.SGD(expected.parameters(), lr=0.1)
    optimizer.set_backward_passes_per_step(2)
    for number in range(3):
        if number == 1:
            model.zero_grad()
            expected.zero_grad()
        model(batch(rank, number)).square().mean().backward()
        (sum(expected(batch(other, number)).square().mean() for other in range(size)) / size).backward()  # type: ignore[union-attr]
    optimizer.step()
    plain.step()
    assert_same(model, expected)


def test_passes_may_change_while_a_parameter_is_frozen(rank: int, size: int) -> None:
    model, expected = network(), network()
    optimizer: Any = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    plain = torch.optim.SGD(expected.parameters(), lr=0.1)
    for each in (model, expected):
        each[0].requires_grad_(False)  # type: ignore[index]
    optimizer.set_backward_passes_per_step(2)
    for step in range(3):
        optimizer.zero_grad()
        plain.zero_grad()
        for number in range(3 * step, 3 * step + 3):
            if number == 3 * step + 1:  # the first pass does not count
                model.zero_grad()
                expected.zero_grad()
            model(batch(rank, number)).square().mean().backward()
            (sum(expected(batch(other, number)).square().mean() for other in range(size)) / size).backward()  # type: ignore[union-attr]
        optimizer.step()
        plain.step()
        for each in (model, expected):
            each[0].requires_grad_(True)  # type: ignore[index]
    assert_same(model, expected)


class Shared(torch.nn.Module):
    """One layer that is used several times, within checkpoints, and an end that is not."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.layer = torch.nn.Linear(4, 4)
        self.end = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor, reentrant: Any) -> torch.Tensor:
        x = x.requires_grad_()
        for _ in range(3):
            x = torch.tanh(self.layer(x) if reentrant is None else checkpoint(self.layer, x, use_reentrant=reentrant))
        return self.end(x).square().mean()  # type: ignore[no-any-return]


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("groups", [None, 1])
def test_a_checkpointed_layer_that_is_shared_trains_like_one_process(
    groups: Any, passes: int, reentrant: bool, rank: int, size: int
) -> None:
    model, expected = Shared(), Shared()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1),
        model.named_parameters(),
        backward_passes_per_step=passes,
        groups=groups,
    )
    plain = torch.optim.SGD(expected.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        plain.zero_grad()
        for number in range(passes * step, passes * (step + 1)):
            model(batch(rank, number), reentrant).backward()
            (sum(expected(batch(other, number), None) for other in range(size)) / size).backward()  # type: ignore[union-attr]
        optimizer.step()
        plain.step()
    assert_same(model, expected)


@several_ranks
def test_a_layer_that_is_used_inside_and_outside_of_a_reentrant_checkpoint_is_named(rank: int) -> None:
    layer = torch.nn.Linear(4, 4)
    optimizer: Any = hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=0.1), layer.named_parameters())
    x = checkpoint(layer, batch(rank, 0).requires_grad_(), use_reentrant=True)
    with pytest.raises(AssertionError, match="(weight|bias) is used inside and outside .* use_reentrant=False"):
        layer(x).sum().backward()
    optimizer.synchronize()


@several_ranks
def test_gradients_are_reduced_in_the_pass_again_after_a_step_with_a_reentrant_checkpoint(rank: int) -> None:
    layer = torch.nn.Linear(4, 4)
    optimizer: Any = hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=0.1), layer.named_parameters())
    started = []
    for is_nested in (True, False):
        x = batch(rank, 0).requires_grad_()
        (checkpoint(layer, x, use_reentrant=True) if is_nested else layer(x)).sum().backward()
        started.append(len(optimizer._reductions.in_flight))
        optimizer.step()
        optimizer.zero_grad()
    assert started == [0, 2]


def test_each_thread_of_a_pass_knows_whether_the_pass_is_nested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parameter_hook, "_graph_task", lambda: 7)
    answers = []

    class Asking(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
            answers.append(parameter_hook.is_in_nested_pass())
            return gradient

    answers.append(parameter_hook.is_in_nested_pass())
    thread = threading.Thread(target=lambda: Asking.apply(torch.ones(1, requires_grad=True)).sum().backward())
    thread.start()
    thread.join()
    assert answers == [False, True]


GRAPHS: Dict[str, Callable[[], Dict[str, Any]]] = {
    "plain": dict,
    "groups": lambda: {"groups": 1},
    "fp16": lambda: {"compression": hvd.Compression.fp16},
    "top-k": lambda: {"compression": hvd.Compression.topk(1.0)},
    "two passes": lambda: {"backward_passes_per_step": 2},
}


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("kind", list(GRAPHS))
def test_gradients_with_a_graph_train_like_one_process(kind: str, rank: int, size: int) -> None:
    model, expected = network(), network()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), **GRAPHS[kind]()
    )
    plain = torch.optim.SGD(expected.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        plain.zero_grad()
        model(batch(rank, step)).square().mean().backward(create_graph=True)
        (sum(expected(batch(other, step)).square().mean() for other in range(size)) / size).backward(create_graph=True)  # type: ignore[union-attr]
        if kind == "two passes":  # a penalty on the gradients, which needs their graph
            sum(each.grad.square().sum() for each in model.parameters()).backward()  # type: ignore[union-attr]
            for each in expected.parameters():
                each.grad = None
            for other in range(size):
                own = copy.deepcopy(expected)
                own(batch(other, step)).square().mean().backward(create_graph=True)
                sum(each.grad.square().sum() for each in own.parameters()).backward()  # type: ignore[union-attr]
                for each, part in zip(expected.parameters(), own.parameters()):
                    share = part.grad.detach() / size  # type: ignore[union-attr]
                    each.grad = share if each.grad is None else each.grad + share
        optimizer.step()
        plain.step()
    tolerance = {"rtol": 1e-2, "atol": 1e-2} if kind == "fp16" else {"rtol": 1e-4, "atol": 1e-6}
    for value, other in zip(model.parameters(), expected.parameters()):  # type: ignore[assignment]
        torch.testing.assert_close(value, other, **tolerance)
    optimizer.zero_grad()


@needs("torch", "2.4", "fused optimizers on CPUs")
@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("kind", list(GRAPHS))
def test_gradients_with_a_graph_have_the_memory_layout_of_their_parameters(kind: str, rank: int, size: int) -> None:
    start = torch.arange(12.0).view(4, 3).t()  # fused optimizers walk through both memories in parallel
    weight, expected = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
    optimizer = hvd.DistributedOptimizer(torch.optim.Adam([weight], fused=True), [("weight", weight)], **GRAPHS[kind]())
    plain = torch.optim.Adam([expected], fused=True)
    factors = torch.linspace(-1, 1, 12).view(3, 4)
    for _ in range(2 if kind == "two passes" else 1):
        (factors * weight).pow(3).mean().backward(create_graph=True)
        (factors * expected).pow(3).mean().backward(create_graph=True)
    optimizer.step()
    plain.step()
    if kind != "fp16":
        torch.testing.assert_close(weight, expected)
    assert weight.grad is not None and weight.grad.stride() == weight.stride()
    optimizer.zero_grad()


def through_pickle(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def through_a_file(value: Any) -> Any:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, through_pickle, through_a_file])
@pytest.mark.parametrize("op", [hvd.Average, hvd.Adasum])
def test_a_copy_of_a_wrapped_optimizer_is_plain_and_may_be_wrapped(
    op: int, copied: Callable[[Any], Any], rank: int, size: int
) -> None:
    if op == hvd.Adasum and size & (size - 1):
        pytest.skip("Adasum needs a power of two of ranks")
    model = network()
    optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters(), lr=0.1), model.named_parameters(), op=op)
    model(batch(rank, 0)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    both: List[Any] = copied([model, optimizer]) if copied is not copy.copy else [model, copied(optimizer)]
    other_model, plain = both
    assert type(plain) is torch.optim.Adam
    assert plain.param_groups[0]["params"][0] is next(other_model.parameters())
    assert plain.state_dict()["state"][0]["step"] == 1
    if copied is copy.copy:
        return
    hvd.broadcast_optimizer_state(plain, 0)  # Adasum's ranks have steps of their own
    wrapped = hvd.DistributedOptimizer(plain, other_model.named_parameters())
    other_model(batch(rank, 1)).square().mean().backward()
    wrapped.step()
    first = next(other_model.parameters()).detach()
    assert all(torch.equal(each, first) for each in hvd.allgather(first.unsqueeze(0), name="copied"))
