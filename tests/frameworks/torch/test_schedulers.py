"""A learning rate scheduler acts on the optimizer that steps, in every order of making, wrapping, broadcasting, loading
and adding parameters: rates and weights are those of one process, and so are PyTorch's warnings."""

from __future__ import annotations

import itertools
import warnings
from typing import Any, Callable, Dict, List, Tuple

import horovod.torch as hvd
import pytest
import torch

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")
EPOCHS = 4
lr_scheduler = torch.optim.lr_scheduler


class Network(torch.nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.body = torch.nn.Linear(4, 3)
        self.head = torch.nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.body(x)))  # type: ignore[no-any-return]


def loss_of(model: Network, epoch: int, rank: int) -> torch.Tensor:
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(100 * epoch + rank))
    return model(x).square().mean()


class Training:
    """Plays the events of a script, in one process (``is_alone``) or on this rank, and then trains."""

    def __init__(self, make_scheduler: Callable[[Any], Any], is_alone: bool, **options: Any) -> None:
        self.model = Network(0 if is_alone else hvd.rank())
        self.optimizer: Any = torch.optim.SGD(self.model.body.parameters(), lr=0.5, momentum=0.9)
        self.scheduler: Any = None
        self.warnings: List[Any] = []
        self._make_scheduler = make_scheduler
        self._is_alone = is_alone
        self._options = options

    def play(self, events: Tuple[str, ...]) -> List[Tuple[float, float]]:
        with warnings.catch_warnings(record=True) as self.warnings:
            warnings.simplefilter("always")
            for event in events:
                getattr(self, event)()
            if not self._is_alone:
                hvd.broadcast_parameters(self.model.state_dict(), root_rank=0)
            return [self._epoch(epoch) for epoch in range(EPOCHS)]

    def schedule(self) -> None:
        self.scheduler = self._make_scheduler(self.optimizer)

    def wrap(self) -> None:
        if not self._is_alone:
            self.optimizer = hvd.DistributedOptimizer(self.optimizer, **self._options)

    def broadcast(self) -> None:
        if not self._is_alone:
            hvd.broadcast_optimizer_state(self.optimizer, root_rank=0)

    def load(self) -> None:
        self.optimizer.load_state_dict(self.optimizer.state_dict())

    def add(self) -> None:
        self.optimizer.add_param_group({"params": self.model.head.parameters(), "lr": 0.25})

    def _epoch(self, epoch: int) -> Tuple[float, float]:
        group = self.optimizer.param_groups[0]
        rates = group["lr"], group["momentum"]
        self.optimizer.zero_grad()
        ranks = range(hvd.size()) if self._is_alone else [hvd.rank()]
        loss = sum(loss_of(self.model, epoch, rank) for rank in ranks) / len(ranks)
        loss.backward()  # type: ignore[union-attr]
        loss = loss.detach()  # type: ignore[union-attr]
        self.optimizer.step()
        if isinstance(self.scheduler, lr_scheduler.ReduceLROnPlateau):
            mean = loss if self._is_alone else hvd.allreduce(loss, name="metric")  # type: ignore[arg-type]
            self.scheduler.step(float(mean) + epoch)
        else:
            self.scheduler.step()
        return rates


def assert_like_one_process(make_scheduler: Callable[[Any], Any], events: Tuple[str, ...], **options: Any) -> None:
    alone, together = Training(make_scheduler, True), Training(make_scheduler, False, **options)
    expected = alone.play(events)
    assert together.play(events) == expected
    assert [str(each.message) for each in together.warnings] == [str(each.message) for each in alone.warnings]
    assert len({rate for rate, _ in expected}) > 1, "this scheduler has changed nothing"
    for (name, value), other in zip(together.model.named_parameters(), alone.model.parameters()):
        torch.testing.assert_close(value, other, rtol=1e-4, atol=1e-5)
        everywhere = hvd.allgather(value.detach().unsqueeze(0), name=f"ends.{name}")
        assert all(torch.equal(each, value) for each in everywhere)


EVENTS = ("schedule", "wrap", "broadcast", "load", "add")


@pytest.mark.parametrize("events", list(itertools.permutations(EVENTS)), ids="-".join)
def test_a_scheduler_moves_the_optimizer_that_steps_in_every_order_of_events(events: Tuple[str, ...]) -> None:
    assert_like_one_process(lambda optimizer: lr_scheduler.StepLR(optimizer, 1, gamma=0.5), events)


SCHEDULERS: Dict[str, Callable[[Any], Any]] = {
    "Lambda": lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.9**epoch),
    "Cosine": lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS),
    "OneCycle": lambda optimizer: lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=EPOCHS + 1),
    "Cyclic": lambda optimizer: lr_scheduler.CyclicLR(optimizer, 0.1, 0.5, step_size_up=2),
    "Plateau": lambda optimizer: lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5),
    "Sequential": lambda optimizer: lr_scheduler.SequentialLR(
        optimizer,
        [lr_scheduler.LinearLR(optimizer, 0.5, total_iters=2), lr_scheduler.ExponentialLR(optimizer, 0.9)],
        milestones=[2],
    ),
}


@pytest.mark.parametrize("kind", list(SCHEDULERS))
@pytest.mark.parametrize("order", ["schedule-wrap-broadcast", "wrap-schedule-broadcast", "schedule-wrap-load"])
def test_each_kind_of_scheduler_moves_the_optimizer_that_steps(kind: str, order: str) -> None:
    assert_like_one_process(SCHEDULERS[kind], tuple(order.split("-")))


@several_ranks
def test_a_scheduler_that_is_made_before_wrapping_moves_an_adasum_optimizer(rank: int) -> None:
    training = Training(lambda optimizer: lr_scheduler.StepLR(optimizer, 1, gamma=0.5), False, op=hvd.Adasum)
    assert training.play(("schedule", "wrap", "broadcast")) == [(0.5 * 0.5**epoch, 0.9) for epoch in range(EPOCHS)]


def test_stepping_the_scheduler_before_the_optimizer_warns_as_in_one_process() -> None:
    for events in (("schedule", "wrap"), ("wrap", "schedule")):
        training = Training(lambda optimizer: lr_scheduler.StepLR(optimizer, 1), False)
        for event in events:
            getattr(training, event)()
        with pytest.warns(UserWarning, match="before `optimizer.step"):
            training.scheduler.step()


def test_wrapping_makes_the_given_optimizer_the_distributed_one() -> None:
    inner = torch.optim.SGD(Network(0).parameters(), lr=0.1)
    assert hvd.DistributedOptimizer(inner) is inner


def test_an_optimizer_that_could_not_be_wrapped_is_as_before() -> None:
    inner = torch.optim.SGD(Network(0).parameters(), lr=0.1)
    scheduler = lr_scheduler.StepLR(inner, 1)
    before = dict(vars(inner))
    with pytest.raises(ValueError, match="named_parameters"):
        hvd.DistributedOptimizer(inner, named_parameters=[("other", torch.ones(1))])
    assert type(inner) is torch.optim.SGD and vars(inner) == before
    assert scheduler.optimizer is inner


def test_an_optimizer_that_has_let_go_may_be_wrapped_again() -> None:
    model = Network(0)
    optimizer: Any = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(ValueError, match="already"):
        hvd.DistributedOptimizer(optimizer)
    optimizer.let_go()
    again = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    loss_of(model, 0, hvd.rank()).backward()
    again.step()
    expected = Network(0)
    (sum(loss_of(expected, 0, rank) for rank in range(hvd.size())) / hvd.size()).backward()  # type: ignore[union-attr]
    torch.optim.SGD(expected.parameters(), lr=0.1).step()
    for value, other in zip(model.parameters(), expected.parameters()):
        torch.testing.assert_close(value, other)
