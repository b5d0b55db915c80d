"""Lightning, with its recipes for elastic jobs."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Tuple

import torch
from comparing import Rules
from draws import drawn, drawn_recipe
from elastic.plan import Event, parse
from elastic.recipes import with_events
from excluding import Exclusion
from frameworks import Framework
from seats import Seat

from with_lightning.training import OPTIMIZERS, play


@dataclass(frozen=True)
class Recipe:
    """An epoch has `length` steps. A scheduler steps after each epoch or step, and so may the model be validated."""

    seed: int = 0
    steps: int = drawn(3, 0.5, (2, 4))
    length: int = drawn(2, 0.5, (1, 3))
    optimizer: str = drawn("SGD", 0.7, OPTIMIZERS)
    scheduler: str = drawn("", 0.7, ("rate_epoch", "rate_step", "plateau_epoch", "plateau_step"))
    passes: int = drawn(1, 0.3, (2,))
    validates: str = drawn("", 0.7, ("epoch", "step"))
    events: Tuple[str, ...] = ()
    uncommitted: Tuple[str, ...] = ()
    fault: str = ""


def _possible(recipe: Recipe) -> Tuple[str, ...]:
    return tuple(word for word in recipe.events if _can_happen(recipe, parse(word)))


def _can_happen(recipe: Recipe, event: Event) -> bool:
    if event.step + 1 < recipe.steps:
        return event.kind != "restore"
    return event.point in SURVIVED_AT_LAST or (event.point in IN_FIRST_PASS and recipe.passes > 1)


SURVIVED_AT_LAST = ("pass", "reset", "sync")
"""If a worker fails at one of these points of the last step, the other workers still need it."""
IN_FIRST_PASS = ("backward", "passed")
"""The same holds at these points if another pass follows in the step."""

ELASTIC = (
    Exclusion(
        "`restore()` does not reach into a trainer, and no commit follows the last step: after the last gradients of a "
        "worker have been sent, the others may end without it",
        lambda r: _possible(r) != r.events,
        {"events": _possible},
    ),
)


def prepare() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # Lightning's advice


FRAMEWORK = with_events(
    Framework(
        kind=Recipe,
        drawn=lambda seed: drawn_recipe(Recipe, seed),
        exclusions=(),
        suited=lambda recipe, size: recipe,
        prepare=prepare,
        play=play,
        one_process=Seat,
        rank=lambda: None,
        rules=Rules(
            differs_from_one_process=lambda recipe: "",
            is_compared_always=lambda recipe, key: False,
            is_of_each_rank=lambda recipe, key: False,
            is_rate=lambda key: ".param_groups." in key or key.startswith("rates"),
            tolerance=lambda recipe: (1e-6, 0.1),
        ),
    ),
    ELASTIC,
)
