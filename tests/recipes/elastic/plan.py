"""What happens in an elastic job, and when: the events of a recipe.

An event is written ``KIND.STEP``, ``KIND.STEP.WORKER`` or ``KIND.STEP.WORKER.POINT``. Workers have numbers: those that
are there from the start from 0 on, and then those that join.
"""

from __future__ import annotations

from typing import Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

FAILURES = ("kill", "raise", "fail")
"""A worker kills itself, or its script raises an error and ends, or raises `HorovodInternalError` and goes on. All
workers return to the last commit."""
DEPARTURES = ("sigterm", "removed")
"""After a commit a worker leaves: it gets SIGTERM, or the discovery script does not print its host any more."""
POINTS = ("pass", "backward", "passed", "step", "commit", "reset", "sync")
"""Where a worker fails: before a pass, in its backward pass, after it; after the step; in a commit, when the state is
saved; in a reset callback or in `sync`, the next time that members have changed (for a worker that joins: in its first
`sync`)."""

FOLLOWING = {"restore": (), "sigterm": ("reset",), "removed": ("reset",)}
"""What follows an event; all others have a reset and a sync. After a departure the state is the same everywhere."""

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
    """The events of a job that begins with this many workers, in the order in which they happen. Those that cannot
    happen are left out.

    :param uncommitted: the steps after which workers do not commit
    """

    def __init__(self, size: int, steps: int, words: Iterable[str], uncommitted: Iterable[str]) -> None:
        self.size = size
        self.is_committed = [str(step) not in uncommitted for step in range(steps)]
        wanted = [each for each in dict.fromkeys(map(parse, words)) if each.step < steps]
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
        """Those that can happen, in the order in which they do."""
        chosen: List[Event] = []
        waiting = [each for each in wanted if self._fails_as_it_joins(each)]
        for event in sorted(wanted, key=lambda each: (each.step, not self._waits(each))):
            if self._fails_as_it_joins(event):
                continue
            if self._waits(event):
                waiting += [event] if event.worker in self._members(chosen)[-1] else []
            elif self._can_happen(event, chosen):
                chosen.append(event)
                self._fail_after(event, waiting, chosen)
        return chosen

    def _fails_as_it_joins(self, event: Event) -> bool:
        """A worker that joins fails in its first sync, at whatever step that is."""
        return event.point == "sync" and event.worker >= self.size

    def _waits(self, event: Event) -> bool:
        """Whether the failure happens when the next change of members leads to a reset or a sync. All workers have a
        sync at the start."""
        return event.point == "reset" or (event.point == "sync" and event.step > 0)

    def _can_happen(self, event: Event, earlier: Sequence[Event]) -> bool:
        if event.point == "commit" and not self.is_committed[event.step]:
            return False
        # Of two changes in the same step, either might come first.
        if event.kind != "restore" and any(each.step == event.step and each.kind != "restore" for each in earlier):
            return False
        if event.kind in ("join", "restore"):
            return True
        present = self._members(earlier)[-1]
        return event.worker in present and (event.kind == "fail" or len(present) > 1)

    def _fail_after(self, cause: Event, waiting: List[Event], chosen: List[Event]) -> None:
        """Adds the waiting failures in the reset and the sync that follow `cause`, the newest event. Each leads to
        another reset and sync. At least one of the workers that have the state must survive."""
        points = FOLLOWING.get(cause.kind, ("reset", "sync"))
        have_trained = self._members(chosen[:-1])[-1]
        waiting.sort(key=lambda each: POINTS.index(each.point))
        while event := self._next_of(waiting, points, self._members(chosen)[-1]):
            waiting.remove(event)
            # A worker may still be in the step before, so that a failure of the same step is not due yet.
            is_due = event.step < cause.step or self._fails_as_it_joins(event)
            survivors = (self._members(chosen)[-1] & have_trained) - {event.worker}
            if is_due and (survivors or event.kind == "fail"):
                chosen.append(event)
                points = ("reset", "sync")

    @staticmethod
    def _next_of(waiting: Sequence[Event], points: Sequence[str], present: Set[int]) -> Optional[Event]:
        return next((each for each in waiting if each.point in points and each.worker in present), None)

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
