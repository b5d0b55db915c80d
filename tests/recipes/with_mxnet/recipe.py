"""A recipe of MXNet: a plain value that names the features of a model, its optimizer and its loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple

ROWS = 12
"""Rows of a batch of all ranks together: each of 2 or of 3 ranks has an equal part of them."""


@dataclass(frozen=True)
class Recipe:
    """Numbers of steps count from 0. `drawing.FIELDS` has the values."""

    seed: int = 0
    steps: int = 3
    body: str = "linear"
    embedding: bool = False
    norm: str = ""
    extras: Tuple[str, ...] = ()
    is_shared: bool = False
    dropout: bool = False
    dtype: str = "float64"
    hybrid: str = ""
    is_numpy: bool = False
    deferred: bool = False
    frozen: str = ""
    """The first layer: `always`, `from` or `until` step 1."""
    added: str = ""
    optimizer: str = "SGD"
    options: Tuple[str, ...] = ()
    scheduler: str = ""
    rate: bool = False
    """The script sets the rate before step 1."""
    multipliers: bool = False
    """Biases have another rate and no decay."""
    second: bool = False
    """The head has a trainer of its own."""
    is_listed: bool = False
    """Trainers get a list of parameters, in reverse order."""
    is_wrapped: bool = False
    """`DistributedOptimizer` in a trainer of Gluon, instead of `DistributedTrainer`."""
    wrapping: Tuple[str, ...] = ()
    is_alone: bool = False
    """Each rank is in a process set of its own, and trains on the whole batch."""
    start: bool = False
    """The root broadcasts; without it, all draw the same weights."""
    is_from_last: bool = False
    passes: int = 1
    remainder: bool = False
    """Gradients that are added up are cleared only before every second step."""
    loss: str = "mean"
    """`mean` or `rows`: the trainer divides by the number of rows."""
    clip: str = ""
    """Between reduction and update."""
    ignores: bool = False
    """`ignore_stale_grad`, also where no gradient is stale."""
    scaler: str = ""
    """In step 1, the loss of the last rank may `overflow`."""
    resume: str = ""
    fault: str = ""
    """For tests of the player; never drawn."""
