"""JAX, as the player and its workers see it; and its recipes, with how often a feature is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple

import horovod.jax as hvd
import jax
from comparing import Rules
from draws import drawn, drawn_recipe, names
from excluding import Exclusion, default, without
from frameworks import Framework

from with_jax.models import BODIES, EXTRAS
from with_jax.optimizers import CHAIN, COMPLEX, ONE_RATE, OPTIMIZERS, SCHEDULES, SEARCHES
from with_jax.seats import STARTS, WRAPPING, JaxSeat
from with_jax.training import LOOPS, RESUMES, play


@dataclass(frozen=True)
class Recipe:
    """A distributed optimizer is `around` all, `first` in a chain, or around each of two `parts` (of `optax.partition`:
    the head has an optimizer of its own, or the first layer is frozen); or the script reduces gradients itself. The
    last rank overflows in step 1. Ranks average the moments of a norm, and the loss: inside of the function whose
    gradient is taken, or after. Recipes of elastic jobs have `events` (see `elastic/plan.py`), and steps after which
    workers do not commit."""

    seed: int = 0
    steps: int = drawn(4, 0.5, (2, 3))
    body: str = drawn("linear", 0.5, BODIES)
    extras: Tuple[str, ...] = names(0.1, EXTRAS)
    is_normed: bool = drawn(False, 0.25)
    remat: bool = drawn(False, 0.2)
    dtype: str = drawn("float64", 0.4, ("float32", "bfloat16"))
    loss: str = drawn("squared_error", 0.4, ("huber_loss", "softmax_cross_entropy"))
    optimizer: str = drawn("sgd", 0.9, OPTIMIZERS)
    schedule: str = drawn("", 0.3, SCHEDULES)
    injected: bool = drawn(False, 0.2)
    chain: Tuple[str, ...] = names(0.07, CHAIN)
    parts: str = drawn("", 0.3, ("second", "frozen"))
    accumulated: str = drawn("", 0.25, ("inside", "outside"))
    finite: bool = drawn(False, 0.25)
    overflow: bool = drawn(False, 0.6)
    reduction: str = drawn("around", 0.5, ("first", "parts", "grouped", "each"))
    wrapping: Tuple[str, ...] = names(0.1, WRAPPING)
    op: str = drawn("Average", 0.15, ("Sum",))
    passes: int = drawn(1, 0.3, (2, 3))
    averages_passes: bool = drawn(False, 0.5)
    start: str = drawn("", 0.6, STARTS)
    is_from_last: bool = drawn(False, 0.3)
    loop: str = drawn("jit", 0.5, LOOPS)
    donates: bool = drawn(False, 0.4)
    mean: str = drawn("after", 0.3, ("inside",))
    resume: str = drawn("", 0.5, RESUMES)
    events: Tuple[str, ...] = ()
    uncommitted: Tuple[str, ...] = ()
    fault: str = ""


BY_HAND = ("grouped", "each")
EXCLUSIONS = (
    Exclusion(
        "a line search needs the loss of the whole batch, and decides by its last bits where it cannot descend",
        lambda r: r.optimizer in SEARCHES,
        {
            **default("reduction", "parts", "accumulated", "op", "passes"),
            **default("schedule", "injected", "chain", "dtype"),
            "extras": without("extras", "weak", "wide"),
        },
    ),
    Exclusion(
        "steps by signs, singular vectors or differences of gradients are, in bfloat16, also those by rounding errors",
        lambda r: r.optimizer in ("rprop", "lion", "muon", "lbfgs"),
        {"dtype": lambda r: r.dtype.replace("bfloat16", "float32")},
    ),
    Exclusion("these have one rate", lambda r: r.optimizer in ONE_RATE, default("schedule", "injected")),
    Exclusion(
        "others are not for complex numbers",
        lambda r: r.optimizer not in COMPLEX or r.parts == "second" or r.chain or r.reduction in BY_HAND,
        {"extras": without("extras", "complex")},
    ),
    Exclusion(
        "optimizers may widen numbers, but loops and conditions may not",
        lambda r: r.accumulated or r.finite or r.loop == "scan",
        {"dtype": lambda r: r.dtype.replace("bfloat16", "float32"), "extras": without("extras", "weak", "wide")},
    ),
    Exclusion(
        "a pass has a loss of its own",
        lambda r: r.passes > 1 or r.accumulated,
        {
            "optimizer": lambda r: "sgd" if r.optimizer in ("polyak_sgd", "momo") else r.optimizer,
            "chain": without("chain", "plateau"),
        },
    ),
    Exclusion(
        "the root's sums of gradients are not those of all",
        lambda r: r.accumulated == "outside" and r.resume == "root",
        {"steps": lambda r: r.steps if r.steps // 2 % 2 == 0 else 4},
    ),
    Exclusion(
        "a program cannot take the types of the root, whose arrays come from its steps",
        lambda r: r.start == "traced" and r.resume == "root",
        {"extras": without("extras", "weak", "complex")},
    ),
    Exclusion("muon divides by the rows", lambda r: r.optimizer == "muon", {"extras": without("extras", "empty")}),
    Exclusion("a pass has statistics of its own", lambda r: r.passes > 1, default("accumulated", "is_normed")),
    Exclusion(
        "after a pass, parameters have strong types, which widen the loss of the next one",
        lambda r: r.passes > 1 and r.dtype == "bfloat16",
        {"extras": without("extras", "weak")},
    ),
    Exclusion("only a skipped step has an overflow", lambda r: not r.finite, default("overflow")),
    Exclusion("there are no parts", lambda r: r.reduction == "parts" and r.parts != "second", default("reduction")),
    Exclusion("a rank skips by its own gradients", lambda r: r.reduction in ("first", "parts"), default("finite")),
    Exclusion("a rank clips its own gradients", lambda r: r.reduction == "parts", default("chain")),
    Exclusion("the rest steps with the zeros between passes", lambda r: r.reduction == "first", default("passes")),
    Exclusion("the script reduces as it likes", lambda r: r.reduction in BY_HAND, default("wrapping", "passes")),
    Exclusion("only an average is predivided", lambda r: r.op == "Sum", {"wrapping": without("wrapping", "predivide")}),
    Exclusion("the root sends values", lambda r: r.resume == "root" and not r.start, default("resume")),
    Exclusion("only a broadcast has a root", lambda r: r.start in ("", "state"), default("is_from_last")),
)
TOLERANCES = {"bfloat16": (0.1, 0.05), "float32": (1e-3, 0.1), "float64": (1e-6, 0.1)}
FRAMEWORK = Framework(
    kind=Recipe,
    drawn=lambda seed: drawn_recipe(Recipe, seed),
    exclusions=EXCLUSIONS,
    suited=lambda recipe, size: recipe,
    prepare=lambda: jax.config.update("jax_disable_most_optimizations", True),
    play=play,
    one_process=JaxSeat,
    rank=lambda: JaxSeat(hvd.size(), hvd.rank()),
    rules=Rules(
        differs_from_one_process=lambda recipe: "lossy compression" if "fp16" in recipe.wrapping else "",
        is_compared_always=lambda recipe, key: False,
        is_of_each_rank=lambda recipe, key: False,
        is_rate=lambda key: False,
        tolerance=lambda recipe: TOLERANCES[recipe.dtype],
    ),
)
