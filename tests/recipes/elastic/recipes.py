"""The recipes of elastic jobs: those that other jobs play, with events and with features of their own.

`with_NAME/elastic_recipes.py` has such a framework, and `with_NAME/elastic_training.py` what a worker does.
"""

from __future__ import annotations

import dataclasses
import importlib
import random
from typing import Any, Callable, Dict, Sequence

from excluding import Exclusion
from frameworks import Framework
from recipe import Recipe

from elastic.plan import DEPARTURES, FAILURES, POINTS, Plan

NAMES = ("torch", "lightning", "jax", "keras", "tensorflow")


def of_framework(name: str) -> Framework:
    """The framework of this name, with the recipes of elastic jobs."""
    return importlib.import_module(f"with_{name}.elastic_recipes").FRAMEWORK  # type: ignore[no-any-return]


def plan_of(recipe: Recipe, size: int) -> Plan:
    """That of a job that begins with this many workers."""
    return Plan(size, recipe.steps, recipe.events, recipe.uncommitted)


def with_events(
    used: Framework,
    exclusions: Sequence[Exclusion],
    more: Callable[[random.Random], Dict[str, Any]] = lambda source: {},
) -> Framework:
    """The framework with more steps in its recipes, and with events.

    :param exclusions: those of elastic jobs alone
    :param more: draws the values of further fields
    """

    def drawn(seed: int) -> Recipe:
        recipe, source = used.drawn(seed), random.Random(f"elastic {seed}")
        steps = recipe.steps + 2
        uncommitted = tuple(str(step) for step in range(steps) if source.random() < 0.35)
        events = tuple(_event(source, steps) for _ in range(source.choice((1, 2, 2, 3, 4))))
        return dataclasses.replace(recipe, steps=steps, events=events, uncommitted=uncommitted, **more(source))

    return used._replace(drawn=drawn, exclusions=(*used.exclusions, *exclusions), suited=suited)


def suited(recipe: Recipe, size: int) -> Recipe:
    """The recipe with the events that can happen in a job that begins with this many workers."""
    return dataclasses.replace(recipe, events=plan_of(recipe, size).words)


def _event(source: random.Random, steps: int) -> str:
    step = source.randrange(steps)
    kind = source.choice(("join", "join", "restore", *FAILURES, *DEPARTURES, "kill"))
    if kind in ("join", "restore"):
        return f"{kind}.{step}"
    worker = source.randrange(4)
    return f"{kind}.{step}.{worker}" + (f".{source.choice(POINTS)}" if kind in FAILURES else "")
