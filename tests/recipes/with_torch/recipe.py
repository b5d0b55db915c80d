"""A recipe of training: a plain value that names the features of a model, its optimizer and its loop."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Sequence, Tuple

Names = Tuple[str, ...]
ROWS = 12
"""Rows of a batch of all ranks together: each of 2 or of 3 ranks has an equal part of them."""


@dataclass(frozen=True)
class Recipe:
    """Each field has the simplest value by default, and a recipe is reduced by giving fields their defaults.

    Numbers of steps count from 0. A feature that happens "from" a step changes nothing before it.
    """

    seed: int = 0
    """Of weights and batches. It does not say which features the recipe has; `drawing.draw` draws those."""
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
    uneven: bool = False
    """The last rank has no batch for the last step, and joins."""

    fault: str = ""
    """A deliberate fault, for tests of the player: a name in `faults.FAULTS`. It is never drawn."""


FIELDS = {each.name: each for each in dataclasses.fields(Recipe)}


def features(recipe: Recipe) -> List[str]:
    """The fields that differ from their defaults."""
    return [name for name, field in FIELDS.items() if getattr(recipe, name) != field.default]


def to_words(recipe: Recipe) -> str:
    """The recipe as words for a command line, such as ``optimizer=Adam options=amsgrad,foreach``."""
    return " ".join(f"{name}={_to_word(getattr(recipe, name))}" for name in features(recipe))


def from_words(words: Sequence[str]) -> Recipe:
    """The recipe of words that `to_words` has written. `ValueError` names a word that it does not know."""
    values: Dict[str, Any] = {}
    for word in words:
        name, _, text = word.partition("=")
        if name not in FIELDS:
            raise ValueError(f"{word}: a recipe has no field {name}")
        values[name] = _from_word(text, FIELDS[name].default)
    return Recipe(**values)


def _to_word(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    return str(int(value)) if isinstance(value, bool) else str(value)


def _from_word(text: str, default: Any) -> Any:
    if isinstance(default, tuple):
        return tuple(filter(None, text.split(",")))
    return text if isinstance(default, str) else type(default)(int(text))


def simpler(recipe: Recipe) -> Iterator[Recipe]:
    """Recipes that have one feature less. Fewer steps come last, because most features need some."""
    for name in features(recipe):
        if name not in ("seed", "steps", "fault"):
            yield dataclasses.replace(recipe, **{name: FIELDS[name].default})
    for name in features(recipe):
        value = getattr(recipe, name)
        if isinstance(value, tuple) and name != "order":
            for left_out in value if len(value) > 1 else ():
                yield dataclasses.replace(recipe, **{name: tuple(each for each in value if each != left_out)})
    if recipe.steps > 1:
        yield dataclasses.replace(recipe, steps=recipe.steps - 1)
