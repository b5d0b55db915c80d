"""The learning rates of optimizers and schedulers, multiplied for a job and divided again for its checkpoints."""

from __future__ import annotations

import copy
from typing import Any, Callable, List, Tuple

import pytest
import torch
from farandole.spark.torch.rates import scale_groups, scale_schedulers
from torch.optim import lr_scheduler, swa_utils

RANKS = 4


def sequential(optimizer: Any) -> Any:
    warm_up = lr_scheduler.ConstantLR(optimizer, 0.1, total_iters=3)
    waves = lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 2, eta_min=0.01)
    return lr_scheduler.SequentialLR(optimizer, [warm_up, waves], [2])


def chained(optimizer: Any) -> Any:
    return lr_scheduler.ChainedScheduler([sequential(optimizer), lr_scheduler.ExponentialLR(optimizer, 0.9)])


class OfUser:
    """A user's scheduler, which is not derived from one of PyTorch."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._schedulers = {"inner": None}
        self.min_lrs = (0.03, 0.03)

    def step(self) -> None:
        for group, limit in zip(self._optimizer.param_groups, self.min_lrs):
            group["lr"] = max(limit, group["lr"] / 2)

    def state_dict(self) -> Any:
        return {"min_lrs": self.min_lrs}

    def load_state_dict(self, state: Any) -> None:
        vars(self).update(state)


SCHEDULERS = {
    "steps": lambda optimizer: lr_scheduler.StepLR(optimizer, 2, 0.5),
    "sequential": sequential,
    "chained": chained,
    "cosine": lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, 5, eta_min=0.02),
    "plateau": lambda optimizer: lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.1, patience=0, min_lr=0.03),
    "one cycle": lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 0.3, total_steps=10),
    "cyclic": lambda optimizer: lr_scheduler.CyclicLR(optimizer, 0.05, 0.2, step_size_up=2),
    "averaging": lambda optimizer: swa_utils.SWALR(optimizer, swa_lr=0.02, anneal_epochs=3),
    "of a user": OfUser,
}
ALL = pytest.mark.parametrize("make", SCHEDULERS.values(), ids=SCHEDULERS)


def made(make: Callable[[Any], Any]) -> Tuple[Any, Any]:
    parameters = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    optimizer = torch.optim.SGD([{"params": parameters[:1], "lr": 0.1}, {"params": parameters[1:]}], lr=0.2)
    return optimizer, make(optimizer)


def rates_of(optimizer: Any, scheduler: Any, steps: int = 4) -> List[float]:
    rates = []
    for _ in range(steps):
        rates += [group["lr"] for group in optimizer.param_groups]
        optimizer.step()
        scheduler.step(*[1.0] * isinstance(scheduler, lr_scheduler.ReduceLROnPlateau))
    return rates


def scaled(optimizer: Any, scheduler: Any) -> Any:
    scale_groups(optimizer.param_groups, RANKS)
    scale_schedulers([scheduler], RANKS)
    return optimizer, scheduler


@ALL
@pytest.mark.filterwarnings("ignore")
def test_the_rates_of_all_schedulers_are_multiplied_and_divided(make: Callable[[Any], Any]) -> None:
    plain, job = made(make), scaled(*made(make))
    for _ in range(2):  # with a break, after which the job is resumed
        assert rates_of(*job) == pytest.approx([RANKS * rate for rate in rates_of(*plain)])
        states = copy.deepcopy([each.state_dict() for each in job])
        scale_groups(states[0]["param_groups"], 1 / RANKS)
        scale_schedulers([states[1]], 1 / RANKS)
        for group, expected in zip(states[0]["param_groups"], plain[0].param_groups):
            assert group["lr"] == pytest.approx(expected["lr"])
        job = made(make)
        for part, state in zip(job, states):
            part.load_state_dict(state)
        scaled(*job)
