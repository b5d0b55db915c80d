"""PyTorch, as the player and its workers see it."""

from __future__ import annotations

import torch
from comparing import Rules
from frameworks import Framework

from with_torch import snapshots
from with_torch.drawing import drawn
from with_torch.exclusions import EXCLUSIONS, suited
from with_torch.recipe import Recipe
from with_torch.seats import OneProcess, Rank
from with_torch.training import play


def prepare() -> None:
    torch.set_num_threads(1)
    torch.set_warn_always(True)


FRAMEWORK = Framework(
    kind=Recipe,
    drawn=drawn,
    exclusions=EXCLUSIONS,
    suited=suited,
    prepare=prepare,
    play=play,
    one_process=OneProcess,
    rank=Rank,
    rules=Rules(
        snapshots.differs_from_one_process,
        snapshots.is_compared_always,
        snapshots.is_of_each_rank,
        snapshots.is_rate,
        snapshots.tolerance,
    ),
)
