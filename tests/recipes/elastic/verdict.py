"""What is wrong with an elastic job, from what its workers have told."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List

from elastic.plan import DEPARTURES, FAILURES, Plan

Message = Dict[str, Any]


def verdict(plan: Plan, told: Dict[int, List[Message]]) -> str:
    """Empty if nothing is wrong.

    :param told: the messages of each worker
    """
    lines = [*_differences(told), *_unequal(told)]
    for rule in (_unplanned_members, _unexpected_order, _unexpected_ends):
        lines += rule(plan, told)
    return "\n".join(lines[:8])


def _differences(told: Dict[int, List[Message]]) -> Iterator[str]:
    for worker, messages in told.items():
        for each in messages:
            for line in each.get("differences", ()):
                yield f"worker {worker} {_place(each)}: {line}"
            for text in each.get("warnings", ()):
                yield f"a warning that one process does not give: {text}"


def _place(message: Message) -> str:
    begins = "at the begin of" if message["kind"] == "begins" else "after"
    return f"in generation {message['generation']} {begins} step {message['step']}"


def _by_generation(told: Dict[int, List[Message]]) -> Dict[int, Dict[int, List[Message]]]:
    """What each worker has played in each generation, in order."""
    found: Dict[int, Dict[int, List[Message]]] = {}
    for worker, messages in told.items():
        for each in messages:
            if each["kind"] in ("begins", "step", "restored", "committed", "interrupted"):
                found.setdefault(each["generation"], {}).setdefault(worker, []).append(each)
    return dict(sorted(found.items()))


def _unequal(told: Dict[int, List[Message]]) -> Iterator[str]:
    for played in _by_generation(told).values():
        first, *others = played
        for other in others:
            for expected, found in zip(played[first], played[other]):
                kinds = [(each["kind"], each["step"]) for each in (expected, found)]
                if kinds[0] != kinds[1]:
                    yield f"workers {first} and {other} differ: {kinds[0]} and {kinds[1]}"
                    break
                one, two = (each.get("digests", {}) for each in (expected, found))
                if keys := [key for key in {**one, **two} if one.get(key) != two.get(key)]:
                    yield f"workers {first} and {other} {_place(found)} differ in {', '.join(keys[:5])}"
                    break


def _unplanned_members(plan: Plan, told: Dict[int, List[Message]]) -> Iterator[str]:
    """The members of generations follow each other as planned. A worker may fail before its generation begins."""
    stages = iter(plan.members)
    stage = next(stages)
    for generation, played in _by_generation(told).items():
        members = {*next(iter(played.values()))[0]["members"]}
        while stage != members:
            if (following := next(stages, None)) is None:
                yield f"generation {generation} has the members {sorted(members)}, which are not planned"
                return
            stage = following


def _unexpected_order(plan: Plan, told: Dict[int, List[Message]]) -> Iterator[str]:
    """Training has to go on from a commit: not from before one that all have reached, nor after one that none has."""
    changes = {each.step for each in plan.events if each.is_planned_change}
    saved = {0, *(step + 1 for step, is_committed in enumerate(plan.is_committed) if is_committed or step in changes)}
    least = most = expected = 0
    for generation, played in _by_generation(told).items():
        for each in max(played.values(), key=len):
            kind, step = each["kind"], each["step"]
            if kind in ("begins", "restored"):
                if step not in saved or not least <= step <= most:
                    yield f"generation {generation} goes on with step {step}, not with one from {least} to {most}"
                expected = step
            elif kind == "step":
                if step != expected:
                    yield f"generation {generation} plays step {step} instead of {expected}"
                expected = step + 1
                most = max(most, expected)
            else:
                least = step + 1
                if kind == "interrupted" and step not in changes:
                    yield f"generation {generation} is interrupted after step {step}, where no change is planned"
    if most != len(plan.is_committed):
        yield f"{most} steps instead of {len(plan.is_committed)}"


def _unexpected_ends(plan: Plan, told: Dict[int, List[Message]]) -> Iterator[str]:
    failed = {each["event"] for messages in told.values() for each in messages if each["kind"] == "fails"}
    for event in plan.events:
        if event.kind in FAILURES and str(event) not in failed:
            yield f"{event} has not happened"
    leavers = {each.worker for each in plan.events if each.kind in DEPARTURES}
    for kind, expected in (("leaves", leavers), ("ends", plan.members[-1]), ("starts", set(range(plan.workers)))):
        found = {worker for worker, messages in told.items() if any(each["kind"] == kind for each in messages)}
        if found != expected:
            yield f"workers {sorted(found)} say '{kind}', not {sorted(expected)}"
