"""A recipe of Keras: a plain value that names the features of a model, its optimizer and its loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple

Names = Tuple[str, ...]
ROWS = 12
"""Rows of a batch of all ranks together: each of 2 or of 3 ranks has an equal part of them."""
EPOCH_STEPS = 2


@dataclass(frozen=True)
class Recipe:
    """Numbers of epochs count from 0."""

    seed: int = 0
    """Of weights and batches. It does not say which features the recipe has; `drawing.drawn` draws those."""
    steps: int = 2
    """The number of epochs, each of `EPOCH_STEPS` steps."""

    # The model.
    body: str = "linear"
    """`linear`, `deep`, `conv`, `gru`, `attention`."""
    embedding: bool = False
    """Its gradients are `IndexedSlices` on TensorFlow."""
    norm: str = ""
    """Empty, `layer`, `group`, `sync` (synchronized over ranks), `batch` (of each rank alone)."""
    extras: Names = ()
    """Parameters of unusual kinds: names in `models.EXTRAS`."""
    is_shared: bool = False
    """One layer is used twice."""
    dropout: bool = False
    regularizer: str = ""
    """Of the first layer: empty, `weights` or `activity`."""
    constraint: str = ""
    """Of the first layer: empty, or a class of `keras.constraints`."""
    dtype: str = "float64"
    """A type, or the policy `mixed_float16` or `mixed_bfloat16`."""
    frozen: str = ""
    """The first layer is frozen: `always`, `from` the second epoch on."""

    # The optimizer.
    optimizer: str = "SGD"
    options: Names = ()
    """Names in `optimizers.OPTIONS`."""
    schedule: str = ""
    """A name in `optimizers.SCHEDULES`."""
    clip: str = ""
    """Empty, `norm`, `value` or `global_norm`."""
    average: str = ""
    """A moving average of the weights: empty, `ema`, or `overwritten` (by which weights are replaced)."""
    accumulated: int = 1
    """Keras' own accumulation of gradients over so many batches."""
    is_built: bool = False
    """The optimizer's variables are made before the first step."""
    second: bool = False
    """The head has an optimizer of its own, in a `MultiOptimizer`."""
    scaler: str = ""
    """A `LossScaleOptimizer`: `inside` of the distributed optimizer, or `outside`."""
    overflow: bool = False
    """The last rank's loss overflows in the second epoch."""

    # Farandole's options.
    wrapping: Names = ()
    """Names in `seats.WRAPPING`."""
    op: str = "Average"
    passes: int = 1
    averages_passes: bool = False
    start: str = ""
    """How ranks get the same weights: they draw the same, or the root broadcasts `variables` or an elastic `state`."""
    is_from_last: bool = False
    """The last rank broadcasts at the start, instead of rank 0."""

    # The loop.
    loop: str = "fit"
    """A name in `training.LOOPS`."""
    callback: str = ""
    """What changes the rate: a name in `callbacks.RATES`."""
    loss: str = "mse"
    validates: bool = False
    executions: int = 1
    """`steps_per_execution`."""
    resume: str = ""
    """After the first epoch: a name in `resuming.RESUMES`."""

    # Of elastic jobs.
    events: Names = ()
    """What happens to workers: see `elastic/plan.py`. A step is an epoch."""
    uncommitted: Names = ()
    """The epochs after which workers do not commit."""
    state: str = "keras"
    """The package whose elastic state is used: `keras` or `tensorflow`."""

    fault: str = ""
    """A deliberate fault, for tests of the player: a name in `faults.FAULTS`. It is never drawn."""
