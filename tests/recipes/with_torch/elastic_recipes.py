"""PyTorch, with its recipes for elastic jobs."""

from __future__ import annotations

import dataclasses
from typing import Iterable

import elastic.recipes as shared
from elastic.recipes import plan_of, with_events
from excluding import Exclusion, default, without

from with_torch import framework
from with_torch.models import OFTEN_UNUSED
from with_torch.recipe import ROWS, Recipe
from with_torch.seats import OneProcess

MAKES_OBJECTS = ("new", "root", "deepcopy", "pickle")

ELASTIC = (
    Exclusion("a state keeps its objects", lambda r: r.resume in MAKES_OBJECTS, default("resume")),
    Exclusion("a sampler's state is loaded with the others", lambda r: r.is_sampled and r.resume, default("resume")),
    Exclusion("an optimizer loads only a state that has its groups", lambda r: r.added, default("added")),
    Exclusion("the state of L-BFGS is not broadcast", lambda r: r.optimizer == "LBFGS", {"optimizer": "Adam"}),
    Exclusion("rank 0 has the state that counts", lambda r: r.is_from_last, default("is_from_last")),
    Exclusion("a rank that has joined cannot commit", lambda r: r.uneven, default("uneven")),
    Exclusion(
        "a sampler gives all workers as many rows, and batch norm refuses the one row of the first of four",
        lambda r: r.is_sampled or r.norm == "batch",
        default("is_skewed"),
    ),
    Exclusion("the number of ranks is no power of two at times", lambda r: r.op == "Adasum", default("op")),
    Exclusion(
        "numbers in the state of ASGD and NAdam are of float32, and PyTorch gives them the type of the parameter when "
        "it loads them",
        lambda r: r.optimizer in ("ASGD", "NAdam"),
        {"dtype": "float32", "extras": without("extras", "complex", "mixed")},
    ),
    Exclusion(
        "groups=N communicates before the training function, which a worker that joins late must not",
        lambda r: {"group_1", "group_2"} & {*r.wrapping},
        {"wrapping": without("wrapping", "group_1", "group_2")},
    ),
    Exclusion(
        "gradients are not part of a state: one that is zero, and not None, would be missing on a worker that joins",
        lambda r: r.clear.endswith("_zeros") and (r.frozen or {*OFTEN_UNUSED} & {*r.extras}),
        default("clear"),
    ),
)


def suited(recipe: Recipe, size: int) -> Recipe:
    """The recipe with the events that can happen, and without the features that some number of members excludes."""
    recipe = shared.suited(recipe, size)  # type: ignore[assignment]
    sizes = {len(members) for members in plan_of(recipe, size).members}
    if any(ROWS % each for each in sizes):  # a sampler gives all workers equally many rows
        recipe = dataclasses.replace(recipe, is_sampled=False)
    if least_rows(recipe, sizes) == 0:
        recipe = dataclasses.replace(recipe, is_skewed=False)
    if recipe.norm == "batch" and least_rows(recipe, sizes) == 1:  # which batch norm refuses
        recipe = dataclasses.replace(recipe, norm="")
    return recipe


def least_rows(recipe: Recipe, sizes: Iterable[int]) -> int:
    """The fewest rows of a batch that a worker has in jobs of these sizes."""
    return min(len(OneProcess(size).part(recipe, rank)) for size in sizes for rank in range(size))


FRAMEWORK = with_events(
    framework.FRAMEWORK, ELASTIC, more=lambda source: {"is_sampled": source.random() < 0.3}
)._replace(suited=suited)
