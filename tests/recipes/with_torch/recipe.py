"""A recipe of training: a plain value that names the features of a model, its optimizer and its loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple

Names = Tuple[str, ...]
HALVES = ("bfloat16", "float16")
ROWS = 12
"""Rows of a batch of all ranks together: each of 1 to 4 ranks has an equal part of them."""
EPOCH = 2 * ROWS
"""Rows of an epoch of the sampler."""


@dataclass(frozen=True)
class Recipe:
    """Numbers of steps count from 0. A feature that happens "from" a step changes nothing before it."""

    seed: int = 0
    """Of weights and batches. It does not say which features the recipe has; `drawing.drawn` draws those."""
    steps: int = 3

    # The model.
    body: str = "linear"
    """`linear`, `deep`, `conv`, `gru`, `attention`."""
    embedding: str = ""
    """Empty, `dense` or `sparse`."""
    norm: str = ""
    """Empty, `layer`, `group`, `sync` (synchronized over ranks), `batch` (of each rank alone)."""
    extras: Names = ()
    """Parameters of unusual kinds: names in `models.EXTRAS`."""
    is_shared: bool = False
    """One layer is used twice."""
    dropout: bool = False
    checkpoint: str = ""
    """Empty, `reentrant` or `plain`."""
    dtype: str = "float64"
    layout: str = ""
    """Of weights: empty, `channels_last` or `transposed`."""
    compiled: str = ""
    """Empty, or what is compiled and by which backend: `model-eager`, `model-aot_eager`, `pass-eager`."""

    # The optimizer.
    optimizer: str = "SGD"
    options: Names = ()
    """Names in `optimizers.OPTIONS`."""
    groups: int = 1
    """Parameter groups, with rates of their own."""
    added: bool = False
    """The head's parameters are a group that is added after the first step."""
    frozen: str = ""
    """The first layer is frozen: `always`, `until` the second step, `from` the second step on."""
    second: str = ""
    """A second optimizer: `parts` (both step after one pass) or `turns` (each has a pass of its own)."""

    # Farandole's options.
    wrapping: Names = ()
    """Names in `wrapping.OPTIONS`."""
    op: str = "Average"
    passes: int = 1
    remainder: str = ""
    """A pass that is left over after the first step: `dropped` by clearing the gradients, or `stepped`."""
    order: Names = ("wrap", "broadcast", "schedule")
    is_from_last: bool = False
    """The last rank broadcasts at the start, instead of rank 0."""

    # The loop.
    scheduler: str = ""
    clear: str = "optimizer"
    """The manner of clearing gradients, a name in `loop.CLEARING`."""
    is_cleared_last: bool = False
    """Gradients are cleared after a step instead of before the next."""
    loss: str = "square"
    clip: str = ""
    scaler: str = ""
    """Gradients are scaled: `plain`, or with an `overflow` on one rank in the second step."""
    is_autocast: bool = False
    closure: bool = False
    synchronize: bool = False
    """`synchronize()` is called before `step()`."""
    create_graph: bool = False
    backward: str = ""
    """How gradients are computed: by `backward()` of the loss, by `inputs` (its argument), or by `grad`
    (`torch.autograd.grad`, after which the script writes them to the parameters)."""
    penalty: str = ""
    """A term of the loss: `weights`, or `slope` (needs second derivatives)."""
    hooks: Names = ()
    """Names in `hooks.HOOKS`."""
    evaluates: bool = False
    """Between steps the model is evaluated without gradients."""
    average: str = ""
    """A moving average of the weights: `ema` or `swa`."""
    resume: str = ""
    """After the second step: a name in `resuming.RESUMES`."""
    uneven: int = 0
    """A rank has no batch for the last step, and joins: that of this number, counted round; 0: none."""
    is_skewed: bool = False
    """Ranks have parts of different sizes, by which they weigh their losses."""

    # Of elastic jobs.
    events: Names = ()
    """What happens to workers: see `elastic/plan.py`."""
    uncommitted: Names = ()
    """The steps after which workers do not commit."""
    is_sampled: bool = False
    """An `ElasticSampler` says which rows each rank has."""

    fault: str = ""
    """A deliberate fault, for tests: a name in `faults.FAULTS` or `GRADIENT_FAULTS`. It is never drawn."""

    @property
    def computes_in_halves(self) -> bool:
        """Whether some numbers have a short type."""
        return self.dtype in HALVES or "mixed" in self.extras or self.is_autocast
