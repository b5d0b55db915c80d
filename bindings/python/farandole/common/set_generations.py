"""Carries process sets from one generation of a job to the next: the same objects, with the remaining members.

The rendezvous decides which sets go on, the same for all members. This module reports the sets of this process, and
ties its ``ProcessSet`` objects to the sets of the new generation. Sets are identified by their origin, never by their
ranks: two sets that have shrunk to the same ranks stay two.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from farandole.common import job
from farandole.common import process_sets as sets
from farandole.common.process_sets import ProcessSet, Rule

Origin = Tuple[int, bool, int]
"""The generation in which a set was added, 0 for one of ``init()``'s; whether it has a rule; its place among those."""


class Kept(NamedTuple):
    """A set as the native runtime knows it."""

    born: int
    by_rule: bool
    place: int
    number: int
    slots: List[int]

    @property
    def origin(self) -> Origin:
        """Identifies the set in the job, in all generations."""
        return self.born, self.by_rule, self.place


class Carried(NamedTuple):
    """The sets, objects and rules that go on into the next generation."""

    sets: List[Kept]
    objects: Dict[Origin, List[ProcessSet]]
    rules: List[Rule]


_carried: Optional[Carried] = None
_rules: List[Rule] = []


def carry() -> None:
    """Called before this generation is left for the next: keeps the present sets for it."""
    global _carried
    if job.is_started():
        known = _known()
        _carried = Carried(known, {each.origin: sets.objects_of(each.number) for each in known}, _rules)


def carried() -> Optional[Carried]:
    """The sets that the coming ``init()`` goes on with; None if it begins without any."""
    return _carried


def drop() -> None:
    """There will be no next generation."""
    global _carried
    _carried = None


def rules_of(static_sets: Sequence[ProcessSet]) -> List[Rule]:
    """The rules that the coming ``init()`` gives, in order."""
    given = [each.rule for each in static_sets if each.rule is not None]
    return given or (_carried.rules if _carried else [])


def enter(static_sets: Sequence[ProcessSet], rules: List[Rule]) -> None:
    """After ``init()``: ties ``ProcessSet`` objects to the sets of this generation."""
    global _carried, _rules
    before, _carried, _rules = _carried, None, rules
    known = {each.origin: each for each in _known()}
    if before:
        left = job.runtime.slots
        own = left[job.where().rank]
        for each in before.sets:
            for held in before.objects[each.origin]:
                why = _why_gone(held, each, set(left))
                _tie(held, known.get(each.origin), each.number, why, includes=own in each.slots)
    late = getattr(job.runtime, "joined_late", False)
    for origin, given in zip(_origins(static_sets), static_sets):
        if late or given.rule is not None:
            _tie(given, known.get(origin), None, f"the {_in_init(origin)} has no members any more, or was removed")


def _known() -> List[Kept]:
    return [Kept(*each) for each in job.runtime.kept_sets()]


def _origins(static_sets: Sequence[ProcessSet]) -> List[Origin]:
    places = {False: 0, True: 0}
    origins = []
    for each in static_sets:
        by_rule = each.rule is not None
        origins.append((0, by_rule, places[by_rule]))
        places[by_rule] += 1
    return origins


def _tie(held: ProcessSet, to: Optional[Kept], number: Optional[int], why: str, includes: bool = False) -> None:
    if to is None:
        held.lose(f"process set {number} {why}" if number else why, includes)
        return
    sets.stand_for(held, to.number)
    ranks = sets.get_process_set_ids_and_ranks().get(to.number)
    if ranks is None:
        held.lose(f"process set {to.number} has no members in this generation: its rule chooses none of the ranks")
    else:
        held.ranks = ranks


def _why_gone(held: ProcessSet, each: Kept, left: set[int]) -> str:
    if not each.by_rule and not left.intersection(each.slots):
        return f"is gone: it had ranks {held.ranks} in the generation before, and none of them is in the job any more"
    return (
        "is gone: not every rank had come to the end of adding or removing it when members were lost. "
        "Add it again with add_process_set()"
    )


def _in_init(origin: Origin) -> str:
    _, by_rule, place = origin
    return f"process set number {place} {'by rule' if by_rule else 'of ranks'} that was given to init()"
