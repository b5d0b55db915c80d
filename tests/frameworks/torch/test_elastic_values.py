"""Every value of a TorchState is committed, restored and synchronised: what has a state_dict as such, the rest as
copies."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any, Dict, List

import horovod.torch as hvd
import pytest
import torch
from horovod.torch.elastic.state import StateHandler, get_handler_registry, set_handler_registry
from newer_versions import needs

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")


def training(seed: int) -> Any:
    torch.manual_seed(seed)
    model = torch.nn.Linear(4, 2)
    optimizer: Any = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9), named_parameters=model.named_parameters()
    )
    return model, optimizer


def step(model: torch.nn.Module, optimizer: Any, *schedulers: Any) -> None:
    optimizer.zero_grad()
    model(torch.ones(2, 4)).square().mean().backward()
    optimizer.step()
    for each in schedulers:
        each.step()


class MovingAverage:
    """As the packages of moving averages offer it."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.shadow = [each.detach().clone() for each in model.parameters()]

    def update(self) -> None:
        for kept, each in zip(self.shadow, self.model.parameters()):
            kept.lerp_(each.detach(), 0.5)

    def state_dict(self) -> Dict[str, Any]:
        return {"shadow": self.shadow}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        self.shadow = [each.clone() for each in state_dict["shadow"]]


SCHEDULERS = {
    "Step": lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.1),
    "OneCycle": lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10),
    "Plateau": lambda optimizer: torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.1),
}


@pytest.mark.parametrize("kind", list(SCHEDULERS))
def test_a_scheduler_is_rolled_back_and_synchronised_with_its_optimizer(kind: str, rank: int) -> None:
    model, optimizer = training(rank)
    scheduler = SCHEDULERS[kind](optimizer)
    options = [1.0] if kind == "Plateau" else []
    state = hvd.elastic.TorchState(model, optimizer, scheduler=scheduler, epoch=0)
    if rank != 0:  # only rank 0 has the state that counts
        for _ in range(3):
            scheduler.step(*options)
    state.sync()
    assert state.scheduler is scheduler and scheduler.optimizer is optimizer
    rates = []
    for _ in range(2):
        step(model, optimizer)
        state.scheduler.step(*options)
        rates.append(optimizer.param_groups[0]["lr"])
    state.restore()
    again = []
    for _ in range(2):
        step(model, optimizer)
        state.scheduler.step(*options)
        again.append(optimizer.param_groups[0]["lr"])
    assert again == rates == hvd.broadcast_object(rates, 0, name="rates")
    assert len(set(rates)) == 2


@needs("torch", "2.3", "torch.amp.GradScaler")
def test_a_moving_average_and_a_gradient_scaler_keep_their_identity_and_are_restored(rank: int) -> None:
    model, optimizer = training(rank)
    average = MovingAverage(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** (rank + 4))
    scaler.scale(torch.ones(1))
    state = hvd.elastic.TorchState(model, optimizer, average=average, scaler=scaler)
    state.sync()
    assert state.average is average and state.scaler is scaler
    assert scaler.get_scale() == 16.0
    assert all(torch.equal(kept, each) for kept, each in zip(average.shadow, model.parameters()))
    step(model, optimizer)
    average.update()
    scaler.update(2.0)
    state.commit()
    committed = copy.deepcopy(average.shadow)
    step(model, optimizer)
    average.update()
    scaler.update(8.0)
    assert not torch.equal(average.shadow[0], committed[0])
    state.restore()
    assert all(torch.equal(kept, each) for kept, each in zip(average.shadow, committed))
    assert scaler.get_scale() == 2.0 and average.model is model


class Counting(torch.nn.Linear):
    """Has an extra state: a tensor of another shape on each rank, and a list in the module."""

    def __init__(self, seen: List[int]) -> None:
        super().__init__(2, 2)
        self.seen = seen

    def get_extra_state(self) -> Any:
        return {"seen": self.seen, "tensor": torch.tensor(self.seen)} if len(self.seen) < 9 else torch.tensor(self.seen)

    def set_extra_state(self, state: Any) -> None:
        self.seen = state["seen"] if isinstance(state, dict) else state.tolist()


@pytest.mark.parametrize("length", [1, 9])
def test_the_extra_states_of_modules_are_those_of_the_root(rank: int, length: int) -> None:
    parts = [Counting([10 * rank + number] * (length + rank)) for number in range(2)]
    model = torch.nn.Sequential(*parts)
    state = hvd.elastic.TorchState(model)
    state.sync()
    weights = hvd.allgather(model[1].weight.detach().unsqueeze(0), name="weights")
    for _ in range(2):
        assert [part.seen for part in parts] == [[number] * length for number in range(2)]
        for part in parts:
            part.seen = [rank]
        state.restore()
    assert all(torch.equal(each, model[1].weight) for each in weights)


@pytest.mark.parametrize("form", ["list", "tuple", "dict"])
def test_values_with_a_state_in_a_container_are_handled_one_by_one(form: str, rank: int) -> None:
    parts = [training(10 * rank + number) for number in range(2)]
    schedulers = [torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.1) for _, optimizer in parts]
    values: Dict[str, List[Any]] = {
        "models": [model for model, _ in parts],
        "optimizers": [optimizer for _, optimizer in parts],
        "schedulers": schedulers,
    }
    make: Any = {"list": list, "tuple": tuple, "dict": lambda listed: dict(enumerate(listed))}[form]
    given = {name: make(listed) for name, listed in values.items()}
    state = hvd.elastic.TorchState(**given, epoch=0)
    state.sync()
    assert all(getattr(state, name) is value for name, value in given.items())
    for (model, optimizer), scheduler in zip(parts, schedulers):
        first = model.weight.detach().clone()
        assert all(torch.equal(each, first) for each in hvd.allgather(first.unsqueeze(0), name="weights"))
        step(model, optimizer, scheduler)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1)
    state.restore()
    for (_, optimizer), scheduler in zip(parts, schedulers):
        assert optimizer.param_groups[0]["lr"] == 1.0 and scheduler.last_epoch == 0
    state.schedulers = make(list(reversed(schedulers)))
    for scheduler in schedulers:
        scheduler.step()
    state.restore()
    assert [scheduler.last_epoch for scheduler in schedulers] == [0, 0]


class Warmup(torch.optim.lr_scheduler.LRScheduler):
    """Warms up, and then hands over to another scheduler, which its state refers to."""

    def __init__(self, optimizer: Any, after_scheduler: Any) -> None:
        self.after_scheduler = after_scheduler
        super().__init__(optimizer)

    def get_lr(self) -> List[float]:
        if self.last_epoch < 2:
            return [0.25 * (self.last_epoch + 1)] * len(self.base_lrs)
        self.after_scheduler.step()
        return [group["lr"] for group in self.after_scheduler.optimizer.param_groups]


def test_a_scheduler_that_holds_another_one_moves_the_same_optimizer_after_restore_and_sync(rank: int) -> None:
    model, optimizer = training(rank)
    scheduler = Warmup(optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5))
    state = hvd.elastic.TorchState(model, optimizer, scheduler=scheduler)
    for _ in range(rank):
        scheduler.step()
    state.sync()
    state.restore()
    assert scheduler.after_scheduler.optimizer is optimizer
    rates = []
    for _ in range(4):
        step(model, optimizer, scheduler)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == [0.5, 0.25, 0.125, 0.0625]


@pytest.mark.parametrize("form", ["list", "dict"])
def test_members_that_are_added_are_saved_and_synchronised(form: str, rank: int) -> None:
    averages = [MovingAverage(training(rank)[0]) for _ in range(3)]
    container: Any = averages[:1] if form == "list" else {0: averages[0]}
    state = hvd.elastic.TorchState(averages=container)

    def add(number: int) -> None:
        container.append(averages[number]) if form == "list" else container.update({number: averages[number]})

    add(1)
    state.sync()
    weights = averages[1].shadow[0].clone()
    assert all(torch.equal(each, weights) for each in hvd.allgather(weights.unsqueeze(0), name="weights"))
    add(2)
    averages[1].shadow[0].zero_()
    state.restore()
    assert state.averages is container and len(container) == 2
    assert torch.equal(averages[1].shadow[0], weights)
    add(2)
    state.save()
    weights = averages[2].shadow[0].clone()
    averages[2].shadow[0].zero_()
    state.restore()
    assert len(container) == 3 and torch.equal(averages[2].shadow[0], weights)


@several_ranks
def test_ranks_with_different_members_are_named(rank: int) -> None:
    averages = [MovingAverage(training(rank)[0])]
    state = hvd.elastic.TorchState(averages=averages)
    if rank == 1:
        averages.append(MovingAverage(training(rank)[0]))
    with pytest.raises(ValueError, match=r"members \[0\] on rank 0, but \[0, 1\] on rank 1"):
        state.sync()


def test_a_compressor_is_rolled_back_and_each_rank_keeps_its_own_errors(name: str, rank: int) -> None:
    compression = hvd.Compression.topk(0.3, min_elements=1)

    def step() -> List[float]:
        hvd.allreduce(torch.arange(6.0).view(2, 3) * (rank + 1), name=name, compression=compression)
        return compression.state_dict()["errors"][name].flatten().tolist()

    state = hvd.elastic.TorchState(compression=compression)
    errors = step()
    assert any(errors)
    state.sync()
    step()
    state.restore()
    assert compression.state_dict()["errors"][name].flatten().tolist() == errors


@pytest.mark.parametrize("handlers", ["default", "own"])
def test_restore_drops_the_gradients_of_the_interrupted_step(handlers: str) -> None:
    registry = get_handler_registry()
    if handlers == "own":
        set_handler_registry([(torch.nn.Module, StateHandler), (torch.optim.Optimizer, StateHandler)])
    try:
        model = torch.nn.Linear(2, 1)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        state = hvd.elastic.TorchState([model], optimizer)
        state.commit()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.synchronize()
        state.restore()
    finally:
        set_handler_registry(registry)
    assert [each.grad for each in model.parameters()] == [None, None]


@dataclasses.dataclass
class Progress:
    seen: List[int]
    model: Any = None


def test_other_values_are_deep_copied(rank: int) -> None:
    model, optimizer = training(rank)
    progress = Progress([rank], model)
    state = hvd.elastic.TorchState(model, optimizer, progress=progress, kind=torch.optim.SGD)
    assert state.progress is progress
    progress.seen.append(5)
    state.restore()
    assert state.progress.seen == [rank]
    assert state.progress.model is model, "a value that is handled itself is not copied"
    state.progress.seen.append(6)
    state.commit()
    state.progress.seen.append(7)
    state.restore()
    assert state.progress.seen == [rank, 6]
    assert state.kind is torch.optim.SGD


class Average:
    """A moving average without ``state_dict``."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.followed = [*model.parameters(), *model.buffers()]
        self.shadow = [each.detach().clone() for each in self.followed]


def test_a_value_that_holds_parameters_follows_this_ranks_own_after_restore_and_sync(rank: int) -> None:
    torch.manual_seed(rank)
    model = torch.nn.BatchNorm1d(2)
    average = Average(model)
    average.shadow[0].fill_(rank)
    state = hvd.elastic.TorchState(model, average=average, parameters=list(model.parameters()))
    for put_back in (state.restore, state.sync, state.restore):
        state.average.shadow[0].add_(1)
        put_back()
        own = [*model.parameters(), *model.buffers()]
        assert all(held is each for held, each in zip(state.average.followed, own))
        assert all(held is each for held, each in zip(state.parameters, own))
    assert state.average.shadow[0].tolist() == [0.0, 0.0], "the average is not that of rank 0"


@several_ranks
@pytest.mark.parametrize("has_optimizer", [False, True])
def test_a_value_that_holds_tensors_follows_those_of_the_same_name(has_optimizer: bool, rank: int) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1) if has_optimizer else None
    held = [*model.parameters(), *model.buffers()]
    if rank == 0:  # as its first forward may do
        model[0].register_buffer("seen", torch.ones(1), persistent=False)
    state = hvd.elastic.TorchState(model, optimizer, held=held)
    state.sync()
    assert all(each is own for each, own in zip(state.held, held))


@several_ranks
def test_a_value_that_holds_a_tensor_which_only_rank_0_has_is_refused(rank: int) -> None:
    model = torch.nn.Linear(2, 2)
    if rank == 0:
        model.register_buffer("seen", torch.ones(1), persistent=False)
    state = hvd.elastic.TorchState(model, held=list(model.buffers()))
    if rank == 0:
        state.sync()
    else:
        with pytest.raises(ValueError, match=r"rank 0 .*'seen'.*before sync\(\)"):
            state.sync()


def test_what_cannot_be_copied_is_shared() -> None:
    model, optimizer = training(0)
    generator = (each for each in range(3))
    state = hvd.elastic.TorchState(model, optimizer, generator=generator)
    state.restore()
    assert state.generator is generator
