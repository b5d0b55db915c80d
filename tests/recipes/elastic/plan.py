"""What happens in an elastic job, and when: the events of a recipe.

An event is written ``KIND.STEP``, ``KIND.STEP.WORKER`` or ``KIND.STEP.WORKER.POINT``. Workers have numbers: those that
are there from the start from 0 on, and then those that join.
"""

from __future__ import annotations

from typing import Iterable, List, NamedTuple, Sequence, Set, Tuple

FAILURES = ("kill", "raise", "fail")
"""A worker kills itself, or its script raises an error and ends, or raises `HorovodInternalError` and goes on. All
workers return to the last commit."""
DEPARTURES = ("sigterm", "removed")
"""After a commit a worker leaves: it gets SIGTERM, or the discovery script does not print its host any more."""
POINTS = ("pass", "backward", "passed", "step", "commit", "reset", "sync")
"""Where a worker fails: before a pass, in its backward pass, after it; after the step; in a commit, when the state is
saved; in a reset callback or in `sync` after members have changed."""

HOST = "127.0.0.1"
"""The begin of a host's name, which the number of its only worker follows. All are this machine."""
SOCKET, SIZE = "RECIPES_SOCKET", "RECIPES_SIZE"
"""The environment of a worker: the player's socket, and the number of workers at the start."""


class Event(NamedTuple):
    """Something that happens once. `join`: after a commit, the discovery script prints another host. `restore`: the
    script undoes the steps since the last commit, on all workers."""

    kind: str
    step: int
    worker: int = -1
    point: str = ""

    def __str__(self) -> str:
        return ".".join(str(each) for each in self if each not in (-1, ""))

    @property
    def is_failure(self) -> bool:
        return self.kind in FAILURES

    @property
    def is_planned_change(self) -> bool:
        return self.kind in ("join", *DEPARTURES)


def parse(word: str) -> Event:
    """The event that a word describes."""
    parts = word.split(".")
    kind, step, worker, point = (*parts, *("", "0", "-1", "")[len(parts) :])
    return Event(kind, int(step), int(worker), point)


class Plan:
    """The events of a job that begins with this many workers. Those that cannot happen are left out.

    :param uncommitted: the steps after which workers do not commit
    """

    def __init__(self, size: int, steps: int, words: Iterable[str], uncommitted: Iterable[str]) -> None:
        self.size = size
        self.is_committed = [str(step) not in uncommitted for step in range(steps)]
        wanted = sorted((each for each in map(parse, words) if each.step < steps), key=lambda each: each.step)
        self.events: List[Event] = []
        while wanted != self.events:
            self.events, wanted = wanted, self._possible(wanted)

    @property
    def words(self) -> Tuple[str, ...]:
        return tuple(map(str, self.events))

    @property
    def members(self) -> List[Set[int]]:
        """The workers that are there: at the start, and after each event that changes them."""
        return self._members(self.events)

    @property
    def workers(self) -> int:
        """The number of those that are ever there."""
        return len(set.union(*self.members))

    def of_worker(self, worker: int, kinds: Sequence[str]) -> List[Event]:
        return [each for each in self.events if each.worker == worker and each.kind in kinds]

    def _possible(self, wanted: Sequence[Event]) -> List[Event]:
        chosen: List[Event] = []
        for event in wanted:
            if self._can_happen(event, chosen) and self._is_reached(event, wanted):
                chosen.append(event)
        return chosen

    def _can_happen(self, event: Event, earlier: Sequence[Event]) -> bool:
        if event.point == "commit" and not self.is_committed[event.step]:
            return False
        # Of two changes in the same step, either might come first.
        if event.kind != "restore" and any(each.step == event.step and each.kind != "restore" for each in earlier):
            return False
        if event.kind in ("join", "restore"):
            return event not in earlier
        present = self._members(earlier)[-1]
        return event.worker in present and (event.kind == "fail" or len(present) > 1)

    def _is_reached(self, event: Event, wanted: Sequence[Event]) -> bool:
        """Whether there is a reset or a sync in which the worker fails. One that joins fails in its first sync."""
        if event.point not in ("reset", "sync"):
            return True
        if event.point == "sync" and (event.step == 0 or event.worker >= self.size):
            return True
        others = [each for each in wanted if each.worker != event.worker and each.step >= event.step]
        return any(
            (each.is_failure and each.point not in ("reset", "sync"))
            or each.kind == "join"
            or (event.point == "reset" and each.kind in DEPARTURES)
            for each in others
        )

    def _members(self, events: Sequence[Event]) -> List[Set[int]]:
        members = [set(range(self.size))]
        joined = self.size
        for event in events:
            if event.kind == "join":
                members.append(members[-1] | {joined})
                joined += 1
            elif event.kind in ("kill", "raise", *DEPARTURES):
                members.append(members[-1] - {event.worker})
        return members
