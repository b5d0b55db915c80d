"""Recipes that are drawn from seeds give the same in elastic jobs as in one process that nothing disturbs."""

from __future__ import annotations

import copy
import os
import re
from typing import Any, Callable, Dict, List, Tuple

import numpy as np
import pytest
from elastic.job import ElasticJob
from elastic.plan import DEPARTURES, FAILURES, POINTS, Plan, parse
from elastic.recipes import of_framework
from elastic.verdict import verdict
from launched import needs_launcher
from play import elastic, first_failure
from recipe import from_words, to_words
from seats import Seat

NAME = os.environ.get("FARANDOLE_TEST_FRAMEWORK", "torch")
USED = of_framework(NAME)
slow = pytest.mark.slow
pytestmark = [] if NAME == "torch" else [slow]  # the standard suite plays them with PyTorch
SEVERAL = 300
# Recipes that together have each kind of event, by the number of workers at the start.
CHOSEN = {
    "torch": {
        2: "steps=5 optimizer=Adam scheduler=StepLR average=ema is_sampled=1 uncommitted=1 "
        "events=fail.0.1.commit,kill.2.1.backward,restore.3,join.3,sigterm.4.0",
        3: "steps=4 optimizer=SGD options=momentum scheduler=OneCycleLR scaler=plain passes=2 uncommitted=3 "
        "events=kill.0.1.sync,raise.1.2.pass,join.2,removed.3.0",
    },
    "lightning": {
        2: "steps=6 optimizer=Adam scheduler=plateau_epoch validates=epoch uncommitted=1 "
        "events=fail.0.1.commit,kill.2.1.backward,join.3,sigterm.4.0",
        3: "steps=5 length=3 optimizer=momentum scheduler=rate_step passes=2 validates=step uncommitted=3 "
        "events=kill.0.1.sync,raise.1.2.pass,join.2,removed.3.0",
    },
    "jax": {
        2: "steps=5 optimizer=adam schedule=cosine donates=1 is_normed=1 start=state uncommitted=1 "
        "events=fail.0.1.commit,kill.2.1.backward,restore.3,join.3,sigterm.4.0",
        3: "steps=4 optimizer=momentum injected=1 reduction=each op=Sum loop=eager uncommitted=3 "
        "events=kill.0.1.sync,raise.1.2.pass,join.2,removed.3.0",
    },
    "keras": {
        2: "steps=5 optimizer=Adam schedule=CosineDecay norm=sync is_built=1 start=state uncommitted=1 "
        "events=fail.0.1.commit,kill.2.1.backward,restore.3,join.3,sigterm.4.0",
        3: "steps=4 optimizer=SGD options=momentum loop=tape passes=2 uncommitted=3 state=tensorflow "
        "events=kill.0.1.sync,raise.1.2.pass,join.2,removed.3.0",
    },
    "tensorflow": {
        2: "steps=5 mode=function optimizer=Adam way=optimizer schedule=CosineDecay norm=1 op=Sum start=state "
        "uncommitted=1 events=fail.0.1.commit,kill.2.1.backward,restore.3,join.3,sigterm.4.0",
        3: "steps=4 mode=graph optimizer=v1.Momentum way=optimizer passes=2 uncommitted=3 "
        "events=kill.0.1.sync,raise.1.2.pass,join.2,removed.3.0",
    },
}[NAME]
SEEDS = {
    "torch": {2: range(10), 3: range(10, 20)},
    "lightning": {2: range(3), 3: range(10, 13)},
    "jax": {2: range(3), 3: range(10, 13)},
    "keras": {2: range(2), 3: range(10, 12)},
    "tensorflow": {2: range(2), 3: range(10, 12)},
}[NAME]
FAULT_STEP = {"keras": 0}.get(NAME, 1)
ADAM = {"lightning": "", "jax": "optimizer=adam"}.get(NAME, "optimizer=Adam")


@needs_launcher
@pytest.mark.parametrize("size", [2, pytest.param(3, marks=slow)])
def test_a_job_whose_workers_come_and_go_trains_like_one_process(size: int) -> None:
    recipe = from_words(USED.kind, CHOSEN[size].split())
    assert recipe == USED.suited(USED.repaired(recipe), size)
    with ElasticJob(size, NAME) as job:
        assert job.play(CHOSEN[size]) == ""


@slow
@needs_launcher
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("size", SEEDS)
def test_drawn_elastic_recipes_train_like_one_process(size: int) -> None:
    with ElasticJob(size, NAME) as job:
        assert first_failure(elastic(NAME), job, map(USED.draw, SEEDS[size]), budget_s=120) == ""


@slow
@needs_launcher
def test_workers_whose_number_does_not_divide_a_batch_train_like_one_process() -> None:
    with ElasticJob(4, NAME) as job:
        assert job.play("steps=3 events=join.0") == ""


@slow
@needs_launcher
@pytest.mark.parametrize(
    "size, events", [(3, "raise.2.0.sync,removed.3.2,join.4"), (2, "join.1,removed.2.0,join.3,kill.4.2.sync")]
)
def test_failures_in_a_sync_happen_where_the_plan_has_them(size: int, events: str) -> None:
    with ElasticJob(size, NAME) as job:
        assert job.play(f"steps=6 events={events}") == ""


@slow
@needs_launcher
def test_a_fault_in_an_elastic_job_is_found() -> None:
    with ElasticJob(2, NAME) as job:
        found = job.play("fault=all_differ events=kill.2.0.pass")
        assert re.search(f"after step {FAULT_STEP}: model.head.bias: differs by", found), found
        assert "a deliberate error" in job.play("fault=raises events=kill.2.0.pass")


@slow
@needs_launcher
@pytest.mark.skipif(not ADAM, reason="the state of a trainer has its optimizer")
@pytest.mark.parametrize("event", ["restore.1", "join.1"])
def test_an_optimizer_that_the_state_lacks_is_found(event: str) -> None:
    """It is not restored, or not synchronized."""
    with ElasticJob(2, NAME) as job:
        found = job.play(f"{ADAM} fault=forgotten events={event}")
        assert re.search(
            r"(optimizer|state)\S* (differs by|only in one process)|workers 0 and 2 .* differ in (optimizer|state)",
            found,
        ), found


def told(generation: int, kind: str, step: int, **more: Any) -> Dict[str, Any]:
    return {"kind": kind, "generation": generation, "step": step, "digests": {"model": str(step)}, **more}


PLAN = Plan(2, 3, ["kill.0.1.step", "join.1"], [])
"""Worker 1 is lost after step 0, which worker 0 repeats. After the commit of step 1, worker 2 joins."""
JOB: Dict[int, List[Dict[str, Any]]] = {
    0: [
        {"kind": "starts"},
        told(1, "begins", 0, members=[0, 1]),
        told(1, "step", 0),
        told(2, "begins", 0, members=[0]),
        told(2, "step", 0),
        told(2, "committed", 0),
        told(2, "step", 1),
        told(2, "committed", 1),
        told(2, "interrupted", 1),
        told(3, "begins", 2, members=[0, 2]),
        told(3, "step", 2),
        {"kind": "ends"},
    ],
    1: [
        {"kind": "starts"},
        told(1, "begins", 0, members=[0, 1]),
        told(1, "step", 0),
        {"kind": "fails", "event": "kill.0.1.step"},
    ],
    2: [{"kind": "starts"}, told(3, "begins", 2, members=[0, 2]), told(3, "step", 2), {"kind": "ends"}],
}


def changed(worker: int, index: int, **values: Any) -> Callable[[Any], None]:
    return lambda job: job[worker][index].update(values)


WRONG: Dict[str, Any] = {
    "workers 0 and 2 in generation 3 after step 2 differ in model": changed(2, 2, digests={"model": "?"}),
    "workers 0 and 2 differ: ('step', 2) and ('step', 1)": changed(2, 2, step=1),
    "worker 0 in generation 2 after step 1: model: differs": changed(0, 6, differences=["model: differs"]),
    "a warning that one process does not give: UserWarning": changed(0, -1, warnings=["UserWarning"]),
    "generation 3 goes on with step 1, not with one from 2 to 2": lambda job: [
        changed(each, -3, step=1)(job) for each in (0, 2)
    ],
    "generation 2 plays step 2 instead of 1": changed(0, 6, step=2),
    "generation 2 has the members [1], which are not planned": changed(0, 3, members=[1]),
    "generation 2 is interrupted after step 2, where no change is planned": changed(0, 8, step=2),
    "kill.0.1.step has not happened": lambda job: job[1].pop(),
    "workers [0] say 'ends', not [0, 2]": lambda job: job[2].pop(),
    "workers [0, 1] say 'starts', not [0, 1, 2]": lambda job: job.pop(2),
    "2 steps instead of 3": lambda job: [job[each].pop(-2) for each in (0, 2)],
}


@pytest.mark.parametrize("problem", WRONG)
def test_what_is_wrong_with_a_job_is_said(problem: str) -> None:
    assert verdict(PLAN, JOB) == ""
    job = copy.deepcopy(JOB)
    WRONG[problem](job)
    assert problem in verdict(PLAN, job)


def test_events_that_cannot_happen_are_left_out() -> None:
    words = ["kill.0.0.pass", "kill.1.1.pass", "join.2", "sigterm.2.1", "raise.3.2.step", "fail.3.1.sync", "join.9"]
    plan = Plan(2, 5, words, uncommitted=["4"])
    assert plan.words == ("kill.0.0.pass", "join.2", "raise.3.2.step")
    assert plan.members == [{0, 1}, {1}, {1, 2}, {1}] and plan.workers == 3
    assert Plan(2, 5, ["kill.4.0.commit"], uncommitted=["4"]).words == ()
    assert Plan(2, 5, ["fail.1.0.sync", "kill.3.1.pass"], []).words == ("kill.3.1.pass", "fail.1.0.sync")


@pytest.mark.parametrize(
    "size, words, expected, members",
    [
        # A departure has a reset, but no sync.
        (3, "raise.2.0.sync,removed.3.2,join.4", "removed.3.2,join.4,raise.2.0.sync", "012 01 013 13"),
        (3, "raise.2.0.reset,removed.3.2,join.4", "removed.3.2,raise.2.0.reset,join.4", "012 01 1 13"),
        # Nor has `restore`. Worker 0 leaves before it could fail.
        (3, "raise.2.0.sync,restore.3,removed.4.0,join.5", "restore.3,removed.4.0,join.5", "012 12 123"),
        # A failure in a reset leads to a sync, in which another worker fails.
        (3, "fail.1.0.sync,kill.2.1.reset,removed.4.2", "removed.4.2,kill.2.1.reset,fail.1.0.sync", "012 01 0"),
        # It is not due for sure if it is of the step of its cause.
        (3, "kill.3.0.sync,kill.3.1.pass,join.5", "kill.3.1.pass,join.5", "012 02 023"),
        # A worker that joins fails in its first sync.
        (2, "join.1,removed.2.0,join.3,kill.4.2.sync", "join.1,kill.4.2.sync,removed.2.0,join.3", "01 012 01 1 13"),
        # Worker 2 alone would have nothing to go on with.
        (2, "raise.2.0.sync,removed.3.1,join.4", "removed.3.1,join.4", "01 0 02"),
    ],
)
def test_failures_in_a_reset_or_sync_come_after_the_change_that_leads_to_it(
    size: int, words: str, expected: str, members: str
) -> None:
    plan = Plan(size, 6, words.split(","), [])
    assert ",".join(plan.words) == expected
    assert plan.members == [{*map(int, each)} for each in members.split()]
    assert Plan(size, 6, plan.words, []).words == plan.words


@pytest.mark.parametrize("size", range(1, 9))
def test_equal_parts_of_a_batch_have_each_row_as_often_as_any_other(size: int) -> None:
    parts = Seat(size).equal_parts(12)
    assert len(parts) == size
    assert len({*np.bincount(parts.ravel(), minlength=12)}) == 1
    assert 12 % size or [*parts.ravel()] == [*range(12)]


@pytest.mark.skipif(NAME != "torch", reason="others have equal parts only")
@pytest.mark.parametrize(
    "words, joins, expected",
    [
        ("is_sampled=1", 1, "is_sampled=1"),
        ("is_sampled=1", 2, ""),
        ("is_skewed=1", 1, "is_skewed=1"),
        ("is_skewed=1", 2, ""),
        ("norm=batch", 3, "norm=batch"),
        ("norm=batch", 4, ""),
    ],
)
def test_features_that_a_number_of_workers_excludes_are_left_out(words: str, joins: int, expected: str) -> None:
    events = ",".join(f"join.{step}" for step in range(joins))
    recipe, suited = (from_words(USED.kind, f"steps=5 events={events} {each}".split()) for each in (words, expected))
    assert USED.suited(recipe, 3) == suited


def test_drawn_elastic_recipes_are_read_as_they_were_written_and_have_each_event() -> None:
    drawn = [USED.suited(USED.draw(seed), 2 + seed % 2) for seed in range(SEVERAL)]
    for seed, recipe in enumerate(drawn):
        again = USED.suited(USED.repaired(recipe), 2 + seed % 2)
        assert from_words(USED.kind, to_words(recipe).split()) == recipe == again
    events = [parse(word) for recipe in drawn for word in recipe.events]
    assert {each.kind for each in events} | {"restore"} == {"join", "restore", *FAILURES, *DEPARTURES}
    assert {each.point for each in events} == {"", *POINTS}


@pytest.mark.skipif(NAME != "lightning", reason="with others, a commit follows the last step")
def test_at_the_last_step_a_worker_of_lightning_fails_only_where_the_others_need_it() -> None:
    def kept(words: str) -> Tuple[str, ...]:
        return USED.repaired(from_words(USED.kind, words.split())).events  # type: ignore[attr-defined, no-any-return]

    assert kept("steps=3 events=kill.1.0.step,fail.2.1.pass") == ("kill.1.0.step", "fail.2.1.pass")
    assert kept("steps=3 events=kill.2.0.passed,raise.2.1.step,fail.2.0.commit,join.2") == ()
    assert kept("steps=3 passes=2 events=kill.2.0.passed,raise.2.1.step") == ("kill.2.0.passed",)
