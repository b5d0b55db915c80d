"""Keras, as the player and its workers see it."""

from __future__ import annotations

import gc

from comparing import Rules
from frameworks import Framework

from with_keras import snapshots
from with_keras.drawing import drawn
from with_keras.exclusions import EXCLUSIONS, suited
from with_keras.recipe import Recipe
from with_keras.seats import OneProcess, Rank
from with_keras.training import play


def prepare() -> None:
    gc.freeze()  # the many objects of TensorFlow need not be looked through after each recipe


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
