"""The learning-rate schedulers of recipes. Their functions have names, so that schedulers can be pickled."""

from __future__ import annotations

from typing import Any, Callable, Dict

import torch

lr = torch.optim.lr_scheduler


def falling(step: int) -> float:
    return 0.9**step


def factor(step: int) -> float:
    return 0.8


def _sequential(optimizer: Any) -> Any:
    return lr.SequentialLR(
        optimizer, [lr.LinearLR(optimizer, 0.5, total_iters=2), lr.ExponentialLR(optimizer, 0.9)], [2]
    )


def _cycles_momentum(optimizer: Any) -> bool:
    return bool({"momentum", "betas"} & {*optimizer.defaults})


SCHEDULERS: Dict[str, Callable[[Any], Any]] = {
    "LambdaLR": lambda optimizer: lr.LambdaLR(optimizer, falling),
    "MultiplicativeLR": lambda optimizer: lr.MultiplicativeLR(optimizer, factor),
    "StepLR": lambda optimizer: lr.StepLR(optimizer, 1, gamma=0.5),
    "MultiStepLR": lambda optimizer: lr.MultiStepLR(optimizer, [1, 3], gamma=0.5),
    "ConstantLR": lambda optimizer: lr.ConstantLR(optimizer, 0.5, total_iters=2),
    "LinearLR": lambda optimizer: lr.LinearLR(optimizer, 0.5, total_iters=3),
    "ExponentialLR": lambda optimizer: lr.ExponentialLR(optimizer, 0.7),
    "PolynomialLR": lambda optimizer: lr.PolynomialLR(optimizer, total_iters=8),
    "CosineAnnealingLR": lambda optimizer: lr.CosineAnnealingLR(optimizer, 5),
    "CosineAnnealingWarmRestarts": lambda optimizer: lr.CosineAnnealingWarmRestarts(optimizer, 2),
    "CyclicLR": lambda optimizer: lr.CyclicLR(
        optimizer, 0.01, 0.1, step_size_up=2, cycle_momentum=_cycles_momentum(optimizer)
    ),
    "OneCycleLR": lambda optimizer: lr.OneCycleLR(
        optimizer, 0.1, total_steps=20, cycle_momentum=_cycles_momentum(optimizer)
    ),
    "SequentialLR": _sequential,
    "ChainedScheduler": lambda optimizer: lr.ChainedScheduler(
        [lr.ConstantLR(optimizer, 0.5, total_iters=2), lr.ExponentialLR(optimizer, 0.9)], optimizer=optimizer
    ),
    "ReduceLROnPlateau": lambda optimizer: lr.ReduceLROnPlateau(optimizer, factor=0.5, patience=0, threshold=0.5),
    "SWALR": lambda optimizer: torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.02, anneal_epochs=3),
}
