"""The frameworks of recipes. `with_NAME/framework.py` of each has a value of this class."""

from __future__ import annotations

import importlib
import re
import warnings
from typing import Any, Callable, List, NamedTuple, Sequence, Tuple

import excluding
from comparing import Rules, Snapshot
from excluding import Exclusion
from recipe import Recipe

NAMES = ("torch", "keras", "tensorflow", "jax", "mxnet")


class Framework(NamedTuple):
    """What the player and its workers need of a framework."""

    kind: type
    """The class of its recipes."""
    drawn: Callable[[int], Recipe]
    """The recipe of a seed, whose features may exclude each other."""
    exclusions: Sequence[Exclusion]
    suited: Callable[[Recipe, int], Recipe]
    """The recipe for this number of ranks."""
    prepare: Callable[[], None]
    """Called once by each worker."""
    play: Callable[[Recipe, Any], Sequence[Snapshot]]
    """Plays a recipe on a seat. Returns what it had after every step."""
    one_process: Callable[[int], Any]
    """The seat that plays what so many ranks do together."""
    rank: Callable[[], Any]
    """The seat of this rank of the job."""
    rules: Rules

    def played(self, recipe: Recipe, seat: Any) -> Tuple[Sequence[Snapshot], List[str]]:
        """The snapshots after each step, and the warnings, without addresses of objects."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            snapshots = self.play(recipe, seat)
        texts = [f"{each.category.__name__}: {each.message}" for each in caught]
        return snapshots, [re.sub("0x[0-9a-f]+", "0x…", each) for each in texts]

    def draw(self, seed: int) -> Recipe:
        """The recipe of a seed."""
        return self.repaired(self.drawn(seed))

    def repaired(self, recipe: Recipe) -> Recipe:
        """The recipe without features that exclude each other."""
        return excluding.repaired(recipe, self.exclusions)


def framework(name: str) -> Framework:
    """The framework of this name. It is imported only now: an environment has some of them."""
    return importlib.import_module(f"with_{name}.framework").FRAMEWORK  # type: ignore[no-any-return]
