"""The state of variables: saving, restoring and broadcasting it, tested with NumPy arrays and no job."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy
import pytest
from farandole.common.elastic import VariablesState
from farandole.common.exceptions import HorovodInternalError


class Arrays:
    """Variables are arrays that are written to in place."""

    def to_numpy(self, variable: Any) -> Any:
        return variable

    def assign(self, variable: Any, array: Any) -> None:
        variable[...] = array


class Model(VariablesState):
    """Two arrays and the given values; on rank 0 the arrays hold ones, and the values are ``rank_0``."""

    def __init__(self, rank_0: Dict[str, Any], **kwargs: Any) -> None:
        self.arrays: List[Any] = [numpy.zeros(2), numpy.zeros((1, 3))]
        self.is_lost_at = ""
        super().__init__(Arrays(), bcast_object=lambda _: self._receive("values", rank_0), **kwargs)

    def _receive(self, part: str, content: Any) -> Any:
        if self.is_lost_at == part:
            raise HorovodInternalError(part)
        return content

    def _variables(self) -> List[Any]:
        return self.arrays

    def _broadcast(self) -> None:
        self._receive("variables", None)
        for each in self.arrays:
            each[...] = 1.0


def contents(state: Model) -> List[float]:
    return [float(each.flat[0]) for each in state.arrays]


def test_restore_without_a_commit_returns_to_the_state_at_construction() -> None:
    state = Model({}, step=3, seen=[1])
    state.arrays[0][...] = 7.0
    state.seen.append(2)
    state.step = 9
    state.restore()
    assert contents(state) == [0.0, 0.0] and state.step == 3 and state.seen == [1]


def test_a_saved_state_does_not_change_with_the_variables() -> None:
    state = Model({}, step=0, seen=[])
    state.arrays[0][...] = 2.0
    state.step = 1
    state.save()
    state.arrays[0][...] = 3.0
    state.step = 2
    for _ in range(2):  # restoring does not change the saved state either
        state.restore()
        assert contents(state) == [2.0, 0.0] and state.step == 1 and state.seen == []
        state.arrays[0][...] = 4.0
        state.seen.append(4)


def test_sync_takes_and_commits_the_variables_and_values_of_rank_0() -> None:
    state = Model({"step": 5}, step=0)
    state.sync()
    assert contents(state) == [1.0, 1.0] and state.step == 5
    state.arrays[1][...] = 8.0
    state.restore()
    assert contents(state) == [1.0, 1.0] and state.step == 5


def test_values_that_refer_to_variables_are_copied_without_them() -> None:
    state = Model({}, places=())
    state.places = ([state.arrays[0]], [5])
    state.save()
    state.places[1].append(6)
    state.restore()
    assert state.places[0][0] is state.arrays[0] and state.places[1] == [5]


@pytest.mark.parametrize("lost_at", ["variables", "values"])
def test_a_member_lost_at_sync_leaves_the_previous_commit_complete(lost_at: str) -> None:
    state = Model({"step": 5}, step=0)
    state.arrays[0][...] = 2.0
    state.save()
    state.is_lost_at = lost_at
    with pytest.raises(HorovodInternalError):
        state.sync()
    state.restore()
    assert contents(state) == [2.0, 0.0] and state.step == 0
