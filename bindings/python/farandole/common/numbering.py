"""Tells optimizers with the same name apart by numbers, which have to be the same on all ranks."""

from __future__ import annotations

import collections
from typing import Counter, Tuple

from farandole.common.process_sets import ProcessSet, global_process_set

_taken: Counter[Tuple[str, str]] = collections.Counter()
_job = 0


def jobs() -> int:
    """The number of jobs that this process has joined. Numbers start again in each."""
    return _job


class Number:
    """The number of an optimizer, from 1, in the order of the first steps of those with the same name.

    It is not taken at construction, because a rank may make optimizers that never step. In the next job it is taken
    anew, so that a worker that goes on counts like one that has just been started.
    """

    def __init__(self) -> None:
        self._job = -1
        self._number = 0

    def among(self, name: str, process_set: ProcessSet) -> int:
        """The number among the optimizers of this process with this name, whose gradients the same ranks reduce."""
        if self._job != _job:
            key = name, "all" if process_set is global_process_set else str(process_set.ranks)
            _taken[key] += 1
            self._job, self._number = _job, _taken[key]
        return self._number


def begin_anew() -> None:
    """Called when this process has joined another job: no number is taken."""
    global _job
    _job += 1
    _taken.clear()
