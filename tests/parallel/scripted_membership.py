"""A runtime that knows of membership what a test says, and leaves all else to the one that it stands before."""

from __future__ import annotations

from typing import Any, Tuple

import pytest
from farandole.common import job


class Runtime:
    """See ``farandole.common.membership`` for what is asked of it."""

    generation = 2

    def __init__(
        self, behind: Any, change: Tuple[int, bool] = (0, False), must_sync: bool = True, joined_late: bool = False
    ) -> None:
        self.behind = behind
        self.change = change
        self.must_sync = must_sync
        self.joined_late = joined_late

    def membership_change(self) -> Tuple[int, bool]:
        return self.change

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)


def make_elastic(monkeypatch: pytest.MonkeyPatch, **told: Any) -> Runtime:
    """This is an elastic job from here to the end of the test, as far as Python knows."""
    monkeypatch.setenv("HOROVOD_ELASTIC", "1")
    runtime = Runtime(job.runtime, **told)
    monkeypatch.setattr(job, "runtime", runtime)
    return runtime
