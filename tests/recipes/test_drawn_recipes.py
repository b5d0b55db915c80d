"""Recipes of training that are drawn from seeds give the same on 2 and on 3 ranks as in one process."""

from __future__ import annotations

import os
import re
from typing import Dict, Iterator

import pytest
from faults import GRADIENT_FAULTS
from frameworks import framework
from jobs import RecipeJob
from launched import needs_launcher
from play import SIZES, first_failure, of_fixed_members
from recipe import Recipe, features, from_words, simpler, to_words, values, weight
from reducing import reduced

NAME = os.environ.get("FARANDOLE_TEST_FRAMEWORK", "torch")
USED = framework(NAME)

# The seeds that decide about a change, by the number of ranks that play them.
FIXED = {
    "torch": {2: range(180), 3: range(200, 300)},
    "keras": {2: range(1)},
    "tensorflow": {2: range(2)},
    "jax": {2: range(2)},
    "mxnet": {2: range(16)},
}[NAME]
SEVERAL = 500
MANY = 2000
# The smallest recipes of faults that were found.
FAILED_BEFORE: Dict[str, str] = {
    "torch": {
        "overflow_between_turns": "steps=2 second=turns scaler=overflow",
        "layout_of_broadcast_state": "steps=1 layout=transposed optimizer=Adagrad options=fused",
        "expanded_gradient_and_compressor": "steps=1 extras=expanded wrapping=custom backward=grad",
        "layout_of_gradients_with_a_graph": "steps=1 layout=transposed options=fused create_graph=1",
        "groups_that_differ_between_ranks": (
            "seed=6023 steps=4 body=conv embedding=sparse extras=resting,routed,rare_words optimizer=Adagrad "
            "wrapping=group_2,measured clear=model resume=root"
        ),
        "groups_that_wait_while_another_optimizer_steps": (
            "seed=20313 steps=1 norm=sync extras=resting second=turns wrapping=group_2 clear=model"
        ),
    },
    "keras": {
        "passes_after_freezing": "frozen=from passes=2",
        "optimizers_of_a_map": "second=1",
        "loaded_with_synchronized_norm": "norm=sync resume=loaded",
    },
    "jax": {
        "weak_types_of_broadcast_parameters": "steps=1 extras=weak dtype=bfloat16 start=parameters",
        "weak_types_of_broadcast_objects": "steps=2 extras=weak reduction=grouped start=object",
        "random_keys_in_a_program": "steps=1 optimizer=noisy_sgd start=traced",
        "complex_gradients": "steps=1 extras=complex",
        "passes_of_widened_gradients": "steps=1 optimizer=adafactor dtype=bfloat16 passes=2",
        "donated_arrays_of_an_elastic_state": "steps=2 donates=1 resume=elastic",
    },
    "tensorflow": {
        "a_variable_that_is_asked_for_twice": "steps=1 structure=repeated",
        "checkpoints_of_old_optimizers": "optimizer=v1.Momentum way=optimizer resume=file",
        "variance_far_from_zero": "steps=1 norm=1 dtype=float32",
        "a_tape_that_still_records": "asked=within",
        "generic_names_of_two_calls": "steps=1 mode=function asked=halves,generic",
        "checkpoints_with_a_scaler": "dtype=float32 way=optimizer optimizer=v1.Momentum scaler=inside resume=file",
        "sums_of_two_optimizers": "steps=1 mode=graph way=optimizer passes=2 optimizer=v1.Adam second=parts",
    },
    "mxnet": {
        "stale_gradients_on_some_ranks": "steps=2 extras=routed",
        "stale_gradients_of_mx_np": "steps=1 extras=routed dtype=float32 is_numpy=1",
        "shapes_that_only_the_root_knows": "steps=2 deferred=1 resume=root",
        "update_that_a_scaler_skips": "extras=routed scaler=overflow",
        "bfloat16_of_mx_np": "steps=1 dtype=float32 is_numpy=1 wrapping=bf16",
    },
}[NAME]
# Fields that have several values.
CHOSEN = {
    "torch": ("optimizer", "scheduler", "resume", "body", "clip", "op", "clear"),
    "keras": ("optimizer", "schedule", "callback", "resume", "body", "clip", "loop"),
    "jax": ("optimizer", "schedule", "reduction", "start", "resume", "body", "loop"),
    "tensorflow": (
        *("optimizer", "mode", "way", "structure", "start", "resume", "body", "clip"),
        *("second", "schedule", "scaler"),
    ),
    "mxnet": ("optimizer", "scheduler", "resume", "body", "clip", "scaler", "frozen"),
}[NAME]
# An option of Adam.
OPTION = "betas" if NAME == "mxnet" else "amsgrad"
# A deliberate fault, and what is said of it.
FAULTS = {
    "last_bit": "after step 1: ranks 0 and 1 differ in model.head.bias",
    "all_differ": "after step 1: model.head.bias: differs by",
    "rate": "after step 1: (optimizer0.param_groups.0.lr|rate0): ",
    "warns": "a warning that one process does not give: UserWarning: a deliberate warning",
    "raises": "on rank 1: .*a deliberate error",
    "is_wrong": "in one process: .*a deliberate error",
    "ends": "a rank has ended|exited with code 3|the job ended with status",
}
if NAME == "jax":
    del FAULTS["rate"]  # a rate that changes is a part of the optimizer's state
# The standard suite plays more recipes of frameworks that need no second for one. Those of `FAILED_BEFORE` have a test
# among those of their framework, too, and the player, which finds the faults, is the same for all.
IS_QUICK = NAME in ("torch", "mxnet")
TRIED = {"torch": ("last_bit", "all_differ", "rate", "warns", "ends"), "mxnet": ("last_bit",)}.get(NAME, ())


@pytest.fixture(scope="module")
def jobs_by_size() -> Iterator[Dict[int, RecipeJob]]:
    """Jobs that play the recipes of all tests."""
    jobs = {size: RecipeJob(size, NAME) for size in SIZES}
    yield jobs
    for job in jobs.values():
        job.__exit__()


@needs_launcher
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("size", FIXED)
def test_drawn_recipes_train_like_one_process(size: int, jobs_by_size: Dict[int, RecipeJob]) -> None:
    mode = of_fixed_members(NAME)
    assert first_failure(mode, jobs_by_size[size], map(mode.draw, FIXED[size]), budget_s=120) == ""


@needs_launcher
@pytest.mark.parametrize("size", [pytest.param(each, marks=() if IS_QUICK else pytest.mark.slow) for each in FIXED])
@pytest.mark.parametrize("words", FAILED_BEFORE.values(), ids=FAILED_BEFORE)
def test_a_recipe_that_failed_before_passes(words: str, size: int, jobs_by_size: Dict[int, RecipeJob]) -> None:
    recipe = from_words(USED.kind, words.split())
    assert USED.repaired(recipe) == recipe
    assert jobs_by_size[size].play(words) == ""


@needs_launcher
@pytest.mark.timeout(1200)  # two recipes, each with a deadline of 480 s
@pytest.mark.parametrize(
    "fault",
    [pytest.param(each, marks=() if each in TRIED else pytest.mark.slow) for each in FAULTS],
)
def test_a_fault_is_found(fault: str, jobs_by_size: Dict[int, RecipeJob]) -> None:
    job = jobs_by_size[2]
    assert_matches(FAULTS[fault], job.play(f"fault={fault}"))
    assert job.play("steps=1") == "", "the next recipe is not played by a new job"


# The features of recipes in which wrong gradients are hard to see, or change what decides about a step.
WATCHED = {
    "torch": [
        f"loss=huber {each}"
        for each in ("dtype=bfloat16", "dtype=float16", "dtype=float32 is_autocast=1", "extras=mixed")
    ],
    "keras": ["dtype=mixed_float16", "dtype=mixed_bfloat16"],
    "tensorflow": [
        "extras=half",
        "extras=bfloat",
        *(f"dtype=float32 policy=mixed_{each}" for each in ("float16", "bfloat16")),
        *(f"way=optimizer {each}" for each in ("scaler=inside", "scaler=outside", "scaler=fixed")),
        *(f"{each} second={second}" for each in ("way=tape", "way=optimizer") for second in ("parts", "turns")),
    ],
    "jax": ["dtype=bfloat16"],
    "mxnet": ["extras=half"],
}.get(NAME, [])


@needs_launcher
@pytest.mark.parametrize("words", [pytest.param(each, marks=() if IS_QUICK else pytest.mark.slow) for each in WATCHED])
def test_wrong_gradients_are_found(words: str, jobs_by_size: Dict[int, RecipeJob]) -> None:
    job = jobs_by_size[2]
    for optimizer in ("SGD", "Adam") if NAME != "jax" else ("sgd", "adam"):
        recipe = f"seed=2 steps=1 optimizer={optimizer} {words}"
        assert job.play(recipe) == ""
        for fault in GRADIENT_FAULTS:
            assert_matches(r"after step 0: .*differs by", job.play(f"{recipe} fault={fault}"))


@pytest.mark.skipif(NAME != "torch", reason="others have no context of autocast")
def test_autocast_without_an_effect_is_an_error() -> None:
    recipe = from_words(USED.kind, ["is_autocast=1"])
    with pytest.raises(AssertionError, match="autocast has no effect"):
        USED.play(recipe, USED.one_process(2))
    assert USED.play(USED.repaired(recipe), USED.one_process(2))


@needs_launcher
@pytest.mark.skipif(NAME != "torch", reason="the deadline does not depend on the framework")
def test_a_recipe_that_hangs_is_ended_at_its_deadline() -> None:
    with RecipeJob(2, NAME) as job:
        assert job.play("steps=1") == ""
        job.deadline_s = 1.0
        assert "no answer within 1 s" in job.play("fault=hangs")


def assert_matches(pattern: str, text: str) -> None:
    assert re.search(pattern, text, re.S), text


@pytest.mark.skipif(NAME == "jax", reason="its recipes have no options and no clip")
def test_a_recipe_is_reduced_to_the_features_with_which_it_fails() -> None:
    def play(recipe: Recipe) -> str:
        fails = recipe.clip == "norm" and OPTION in recipe.options and recipe.steps >= USED.kind().steps
        return "it fails" if fails else ""

    words = f"steps=5 body=deep optimizer=Adam options={OPTION},decay clip=norm is_shared=1 passes=2"
    recipe = from_words(USED.kind, words.split())
    assert play(recipe)
    smallest, problem = reduced(recipe, "it fails", play, USED.repaired)
    assert to_words(smallest) == f"optimizer=Adam options={OPTION} clip=norm" and problem == "it fails"


def test_a_recipe_is_read_as_it_was_written() -> None:
    for seed in range(SEVERAL):
        recipe = USED.draw(seed)
        assert from_words(USED.kind, to_words(recipe).split()) == recipe == USED.repaired(recipe) == USED.draw(seed)


def test_recipes_without_a_feature_are_legal_or_heavier() -> None:
    for seed in range(SEVERAL // 10):
        recipe = USED.draw(seed)
        lighter = [each for each in map(USED.repaired, simpler(recipe)) if weight(each) < weight(recipe)]
        assert lighter or not features(recipe)


def test_drawn_recipes_have_each_feature() -> None:
    """No feature is drawn that other features exclude for ever."""
    drawn = [USED.drawn(seed) for seed in range(MANY)]
    repaired = [USED.repaired(recipe) for recipe in drawn]
    for name in CHOSEN:
        assert len({getattr(each, name) for each in repaired}) > 2, name
    kept = {pair for recipe in repaired for pair in values(recipe)}
    assert {pair for recipe in drawn for pair in values(recipe)} - kept == set()
