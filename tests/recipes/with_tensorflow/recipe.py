"""A recipe of TensorFlow: a plain value that names the features of a model, its optimizer and its loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple

Names = Tuple[str, ...]
ROWS = 12
"""Rows of a batch of all ranks together: each of 2 or of 3 ranks has an equal part of them."""


@dataclass(frozen=True)
class Recipe:
    """`drawing.FIELDS` has the values of each field."""

    seed: int = 0
    steps: int = 2
    mode: str = "eager"
    """`eager`, `function` (`tf.function`) or `graph` (with a session)."""
    body: str = "linear"
    embedding: bool = False
    is_shared: bool = False
    """One layer is used twice."""
    norm: bool = False
    """Batch normalization that is synchronized over ranks, of inputs that are far from zero."""
    extras: Names = ()
    dtype: str = "float64"
    policy: str = ""
    """Of Keras, by which the model computes in half precision: `mixed_float16` or `mixed_bfloat16`."""
    way: str = "tape"
    """What reduces gradients: a tape (`tape`, `partial`), the script (`each`, `grouped`), or the `optimizer`."""
    structure: str = "list"
    asked: Names = ()
    wrapping: Names = ()
    op: str = "Average"
    passes: int = 1
    averages_passes: bool = False
    local: str = ""
    """One variable, of which all ranks have the same gradient, is not reduced: it is `scaled` or `unscaled`."""
    optimizer: str = "SGD"
    """`hand`, of `keras.optimizers`, or of `tf.compat.v1.train`, as in `v1.Momentum`."""
    options: Names = ()
    schedule: str = ""
    """Of the rate: a name in `optimizers.DECAYS`, with Keras that of a class."""
    second: str = ""
    """The head has an optimizer of its own: `parts` (both step after one pass) or `turns` (each has a pass of its own,
    as in a GAN)."""
    scaler: str = ""
    """Of the loss: `inside` of the distributed optimizer or `outside`, with a scale that changes, or a `fixed` one."""
    overflow: bool = False
    """The last rank's loss overflows in the second step."""
    clip: str = ""
    average: bool = False
    """A moving average of the weights."""
    decays: bool = False
    """The script changes the rate before each step."""
    start: str = ""
    is_from_last: bool = False
    """The last rank broadcasts at the start, instead of rank 0."""
    resume: str = ""
    joins: bool = False
    """The last rank has no batch in the last step."""
    events: Names = ()
    """Of elastic jobs: what happens to workers, see `elastic/plan.py`."""
    uncommitted: Names = ()
    """Of elastic jobs: the steps after which workers do not commit."""
    fault: str = ""
