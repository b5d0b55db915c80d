"""The distributed optimizer on many ranks trains like one process on the whole batch."""

from __future__ import annotations

import gc
import warnings
import weakref
from typing import Any, Callable, Dict, List, Tuple

import horovod.torch as hvd
import pytest
import torch
from farandole.common.exceptions import HorovodInternalError
from horovod.torch.optimizer import _DistributedOptimizer

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")
BATCH = 6


class Network(torch.nn.Module):
    """Two layers, and a third that forward() does not use."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.first = torch.nn.Linear(5, 16)
        self.second = torch.nn.Linear(16, 3)
        self.idle = torch.nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(x)))  # type: ignore[no-any-return]


def batch(rank: int, step: int) -> torch.Tensor:
    return torch.randn(BATCH, 5, generator=torch.Generator().manual_seed(100 * step + rank))


def loss_of(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return model(x).square().mean()  # type: ignore[no-any-return]


def train_alone(make: Callable[[Any], torch.optim.Optimizer], size: int, steps: int, passes: int = 1) -> Network:
    """Trains one process on all batches: the mean over ranks of the sum over passes."""
    model = Network()
    optimizer = make(model.parameters())
    for step in range(steps):
        optimizer.zero_grad()
        for number in range(passes):
            total = sum(loss_of(model, batch(rank, step * passes + number)) for rank in range(size))
            (total / size).backward()  # type: ignore[union-attr]
        optimizer.step()
    return model


def train_distributed(
    make: Callable[[Any], torch.optim.Optimizer], rank: int, steps: int, passes: int = 1, **options: Any
) -> Tuple[Network, torch.optim.Optimizer]:
    model = Network()
    if callable(options.get("groups")):
        options["groups"] = options["groups"](model)
    optimizer = hvd.DistributedOptimizer(
        make(model.parameters()), model.named_parameters(), backward_passes_per_step=passes, **options
    )
    for step in range(steps):
        optimizer.zero_grad()
        for number in range(passes):
            loss_of(model, batch(rank, step * passes + number)).backward()
        optimizer.step()
    return model, optimizer


def assert_close(model: Network, expected: Network, **tolerance: float) -> None:
    for (key, value), other in zip(model.named_parameters(), expected.parameters()):
        torch.testing.assert_close(value, other, msg=lambda text, key=key: f"{key}: {text}", **(tolerance or {}))


KINDS: Dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
}


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gradient_predivide_factor": 2.0},
        {"groups": 2},
        {"groups": 100},
        {"groups": lambda model: [list(model.first.parameters()), [model.second.weight]]},
        {"groups": 3, "gradient_predivide_factor": 0.5},
        {"sparse_as_dense": True},
    ],
    ids=str,
)
def test_the_optimizer_trains_like_one_process(kind: str, options: Dict[str, Any], rank: int, size: int) -> None:
    model, _ = train_distributed(KINDS[kind], rank, steps=4, **options)
    assert_close(model, train_alone(KINDS[kind], size, steps=4), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("passes", [2, 3])
def test_gradients_of_several_passes_add_up_before_the_reduction(passes: int, rank: int, size: int) -> None:
    model, _ = train_distributed(KINDS["SGD"], rank, steps=3, passes=passes)
    assert_close(model, train_alone(KINDS["SGD"], size, steps=3, passes=passes), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("compression", ["fp16", "bf16"])
def test_training_with_compressed_gradients_is_close_to_one_process(compression: str, rank: int, size: int) -> None:
    model, _ = train_distributed(KINDS["SGD"], rank, steps=3, compression=getattr(hvd.Compression, compression))
    assert_close(model, train_alone(KINDS["SGD"], size, steps=3), rtol=0.05, atol=0.02)
    assert all(parameter.grad is None or parameter.grad.dtype == torch.float32 for parameter in model.parameters())


def test_the_sum_of_gradients_is_not_divided(rank: int, size: int) -> None:
    model, _ = train_distributed(lambda p: torch.optim.SGD(p, lr=0.1), rank, steps=1, op=hvd.Sum)
    expected = train_alone(lambda p: torch.optim.SGD(p, lr=0.1 * size), size, steps=1)
    assert_close(model, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("groups", [None, 2])
def test_sparse_gradients_are_averaged(groups: Any, rank: int, size: int) -> None:
    for as_dense in (False, True):
        torch.manual_seed(3)
        table = torch.nn.Embedding(size + 2, 4, sparse=True)
        start = table.weight.detach().clone()
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(table.parameters(), lr=1.0),
            [("weight", table.weight)],
            sparse_as_dense=as_dense,
            groups=groups,
        )
        table(torch.tensor([rank, size])).sum().backward()
        optimizer.step()
        moved = (start - table.weight.detach())[:, 0]
        expected = torch.tensor([1.0 / size] * size + [1.0, 0.0])
        torch.testing.assert_close(moved, expected)


def test_channels_last_gradients_are_averaged(rank: int, size: int) -> None:
    torch.manual_seed(1)
    layer = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=1.0), layer.named_parameters())
    x = torch.full((2, 3, 5, 5), float(rank)).to(memory_format=torch.channels_last)
    layer(x).sum().backward()
    optimizer.synchronize()
    assert layer.weight.grad is not None
    torch.testing.assert_close(layer.weight.grad, torch.full((4, 3, 3, 3), 18.0 * (size - 1) / 2))


def test_the_wrapper_keeps_the_class_options_and_state() -> None:
    model = Network()
    inner = torch.optim.SGD(
        [{"params": model.first.parameters(), "lr": 0.5}, {"params": model.second.parameters()}], lr=0.1, momentum=0.8
    )
    loss_of(model, batch(0, 0)).backward()
    inner.step()
    outer = hvd.DistributedOptimizer(inner, [(k, p) for k, p in model.named_parameters() if "idle" not in k])
    assert type(outer).__name__ == "SGD"
    assert isinstance(outer, torch.optim.SGD) and isinstance(outer, _DistributedOptimizer)
    assert [group["lr"] for group in outer.param_groups] == [0.5, 0.1]
    assert outer.param_groups[0]["momentum"] == 0.8
    assert len(outer.state_dict()["state"]) == 4
    scheduler = torch.optim.lr_scheduler.StepLR(outer, 1, gamma=0.1)
    outer.zero_grad()
    outer.step()
    scheduler.step()
    assert [round(group["lr"], 6) for group in outer.param_groups] == [0.05, 0.01]


def test_an_optimizer_class_with_required_arguments_can_be_wrapped(rank: int, size: int) -> None:
    class Own(torch.optim.Optimizer):
        def __init__(self, params: Any, speed: float) -> None:
            super().__init__(params, {"speed": speed})
            self.steps_taken = 0

        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            self.steps_taken += 1
            with torch.no_grad():
                for group in self.param_groups:
                    for parameter in group["params"]:
                        if parameter.grad is not None:
                            parameter -= group["speed"] * parameter.grad

    model, optimizer = train_distributed(lambda p: Own(p, speed=0.1), rank, steps=2)
    assert optimizer.steps_taken == 2  # type: ignore[attr-defined]
    assert_close(model, train_alone(lambda p: torch.optim.SGD(p, lr=0.1), size, steps=2), rtol=1e-4, atol=1e-5)


@several_ranks
def test_a_second_backward_pass_without_a_step_is_refused(rank: int) -> None:
    model = Network()
    optimizer = hvd.DistributedOptimizer(KINDS["SGD"](model.parameters()), model.named_parameters())
    loss_of(model, batch(rank, 0)).backward()
    with pytest.raises(AssertionError, match="backward_passes_per_step"):
        loss_of(model, batch(rank, 1)).backward()
    optimizer.synchronize()


@several_ranks
def test_zero_grad_during_a_reduction_is_refused(rank: int) -> None:
    model = Network()
    optimizer = hvd.DistributedOptimizer(KINDS["SGD"](model.parameters()), model.named_parameters())
    loss_of(model, batch(rank, 0)).backward()
    with pytest.raises(AssertionError, match="zero_grad"):
        optimizer.zero_grad()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    used = [*model.first.parameters(), *model.second.parameters()]
    assert all(p.grad is not None and not p.grad.any() for p in used)
    optimizer.zero_grad()
    assert all(p.grad is None for p in model.parameters())


def test_step_after_synchronize_warns_without_skip_synchronize(rank: int, size: int) -> None:
    model = Network()
    optimizer: Any = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    loss_of(model, batch(rank, 0)).backward()
    optimizer.synchronize()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with optimizer.skip_synchronize():
            optimizer.step()
    assert_close(model, train_alone(lambda p: torch.optim.SGD(p, lr=0.1), size, steps=1), rtol=1e-4, atol=1e-5)
    optimizer.zero_grad()
    loss_of(model, batch(rank, 1)).backward()
    optimizer.synchronize()
    with pytest.warns(UserWarning, match="optimizer.step\\(\\) called without optimizer.skip_synchronize\\(\\)"):
        optimizer.step()


def test_step_accepts_a_closure_that_computes_the_gradients(rank: int, size: int) -> None:
    model = Network()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    for step in range(3):

        def closure(step: int = step) -> torch.Tensor:
            optimizer.zero_grad()
            loss = loss_of(model, batch(rank, step))
            loss.backward()
            return loss

        assert isinstance(optimizer.step(closure), torch.Tensor)
    assert_close(model, train_alone(lambda p: torch.optim.SGD(p, lr=0.1), size, steps=3), rtol=1e-4, atol=1e-5)


def test_the_number_of_passes_may_change(rank: int, size: int) -> None:
    model = Network()
    optimizer: Any = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    optimizer.set_backward_passes_per_step(2)
    for number in range(2):
        loss_of(model, batch(rank, number)).backward()
    optimizer.step()
    assert_close(
        model, train_alone(lambda p: torch.optim.SGD(p, lr=0.1), size, steps=1, passes=2), rtol=1e-4, atol=1e-5
    )
    with pytest.raises(ValueError):
        optimizer.set_backward_passes_per_step(0)


def test_training_goes_on_after_load_state_dict(rank: int) -> None:
    model, optimizer = train_distributed(KINDS["Adam"], rank, steps=2)
    saved = optimizer.state_dict()
    optimizer.zero_grad()
    loss_of(model, batch(rank, 0)).backward()
    optimizer.synchronize()  # type: ignore[attr-defined]
    optimizer.load_state_dict(saved)
    optimizer.zero_grad()
    loss_of(model, batch(rank, 1)).backward()
    optimizer.step()


def test_gradient_clipping_sees_reduced_gradients(rank: int, size: int) -> None:
    model = Network()
    optimizer: Any = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    loss_of(model, batch(rank, 0)).backward()
    optimizer.synchronize()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    norms = hvd.allgather(norm.detach().reshape(1), name="norm")
    assert all(other == norms[0] for other in norms)
    with optimizer.skip_synchronize():
        optimizer.step()


def test_a_deleted_optimizer_lets_another_one_wrap_its_parameters(rank: int, size: int) -> None:
    model = Network()
    optimizer = hvd.DistributedOptimizer(KINDS["SGD"](model.parameters()), model.named_parameters())
    weak_reference = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    assert weak_reference() is None
    second = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    loss_of(model, batch(rank, 0)).backward()
    second.step()
    assert_close(model, train_alone(lambda p: torch.optim.SGD(p, lr=0.1), size, steps=1), rtol=1e-4, atol=1e-5)


@several_ranks
def test_a_gradient_shape_mismatch_fails_and_later_operations_work(rank: int, size: int) -> None:
    layer = torch.nn.Linear(3 if rank else 4, 2, bias=False)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=0.1), layer.named_parameters())
    layer(torch.ones(1, layer.in_features)).sum().backward()
    with pytest.raises(HorovodInternalError, match="weight"):
        optimizer.step()
    assert hvd.allreduce(torch.ones(1), name="after", op=hvd.Sum).item() == size


BAD_ARGUMENTS: List[Tuple[str, Callable[[Network], Dict[str, Any]]]] = [
    ("parameters without names", lambda model: {"named_parameters": list(model.parameters())}),
    ("missing parameters", lambda model: {"named_parameters": [("a", model.first.weight)]}),
    ("repeated names", lambda model: {"named_parameters": [("a", parameter) for parameter in model.parameters()]}),
    ("zero passes", lambda model: {"backward_passes_per_step": 0}),
    ("predivide with Sum", lambda model: {"gradient_predivide_factor": 2.0, "op": hvd.Sum}),
    ("zero groups", lambda model: {"groups": 0}),
    ("text as groups", lambda model: {"groups": "two"}),
    ("groups of names", lambda model: {"groups": [["first.weight"]]}),
    ("overlapping groups", lambda model: {"groups": [[model.first.weight], [model.first.weight]]}),
]


@pytest.mark.parametrize("title, make", BAD_ARGUMENTS, ids=[title for title, _ in BAD_ARGUMENTS])
def test_bad_arguments_are_refused(title: str, make: Callable[[Network], Dict[str, Any]]) -> None:
    model = Network()
    with pytest.raises(ValueError):
        hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), **make(model))


def test_num_groups_is_accepted_with_a_deprecation_warning(rank: int, size: int) -> None:
    model = Network()
    with pytest.warns(DeprecationWarning):
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), num_groups=2)
    loss_of(model, batch(rank, 0)).backward()
    optimizer.step()
    assert_close(model, train_alone(lambda p: torch.optim.SGD(p, lr=0.1), size, steps=1), rtol=1e-4, atol=1e-5)


def test_a_class_derived_from_the_base_class_trains_like_one_process(rank: int, size: int) -> None:
    class Derived(_DistributedOptimizer, torch.optim.SGD):
        pass

    model = Network()
    optimizer = Derived(model.parameters(), model.named_parameters(), hvd.Compression.none)
    for group in optimizer.param_groups:
        group["lr"] = 0.1
    loss_of(model, batch(rank, 0)).backward()
    optimizer.step()
    assert_close(model, train_alone(lambda p: torch.optim.SGD(p, lr=0.1), size, steps=1), rtol=1e-4, atol=1e-5)
