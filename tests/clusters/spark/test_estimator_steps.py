"""Steps that all ranks take together, with ranks that are threads of this process."""

from __future__ import annotations

import math
import threading
from typing import Any, Dict, List, Sequence

import pytest
from farandole.spark.common.steps import Epochs, Means, Part, Steps

DEADLINE_S = 240


class Ranks:
    """Sums lists over ranks that are threads, and fails if they do not all come."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.exchanges = 0
        self._lists: List[Sequence[float]] = []
        self._barrier = threading.Barrier(size, self._add)

    def _add(self) -> None:
        assert len({len(each) for each in self._lists}) == 1
        self.sums = [sum(values) for values in zip(*self._lists)]
        self._lists = []
        self.exchanges += 1

    def exchange(self, values: List[float]) -> List[float]:
        self._lists.append(values)
        self._barrier.wait(DEADLINE_S)
        return list(self.sums)

    def parts(self, batches: Sequence[Sequence[int]], **options: Any) -> List[List[Part]]:
        """The parts of each rank, whose batches are given by their numbers of rows."""
        results: Dict[int, List[Part]] = {}

        def run(rank: int) -> None:
            steps = Steps(self.exchange, self.size, float, **options)
            results[rank] = list(steps(iter(batches[rank])))

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)
        assert len(results) == self.size
        return [results[rank] for rank in range(self.size)]


@pytest.mark.parametrize("counts", [[0], [9], [3, 3], [1, 9], [0, 5], [4, 8, 6], [12, 0, 1, 5]])
@pytest.mark.parametrize("passes", [1, 2, 3, 5])
def test_all_ranks_take_the_same_parts_and_each_batch_is_delivered_once(counts: List[int], passes: int) -> None:
    batches = [[32] * (count - 1) + [7] if count else [] for count in counts]
    parts = Ranks(len(counts)).parts(batches, passes=passes)
    assert [[part.batch for part in own if part.batch is not None] for own in parts] == batches
    assert len({len(own) for own in parts}) == 1
    assert len({tuple(part.ends_step for part in own) for own in parts}) == 1
    assert len(parts[0]) == math.ceil(max(counts) / passes) * passes
    assert [part.ends_step for part in parts[0]] == [False] * 0 + ([False] * (passes - 1) + [True]) * (
        len(parts[0]) // passes
    )


def test_scales_make_the_average_over_ranks_the_mean_over_rows() -> None:
    parts = Ranks(3).parts([[8, 8], [4], []], passes=2)
    gradients = [sum(part.scale * 1.0 for part in own) for own in parts]
    assert sum(gradients) / 3 == pytest.approx(1.0)
    assert [part.scale for part in parts[0]] == pytest.approx([8 * 3 / 20, 8 * 3 / 20])
    assert [part.scale for part in parts[1]] == pytest.approx([4 * 3 / 20, 0])


def test_a_limit_ends_the_epoch_on_all_ranks() -> None:
    ranks = Ranks(2)
    parts = ranks.parts([[1] * 20, [1] * 2], limit=6)
    assert [len(own) for own in parts] == [6, 6]
    assert ranks.exchanges == 2


def test_rows_without_weight_have_no_scale() -> None:
    parts = Ranks(2).parts([[0, 5], [0]])
    assert [part.scale for part in parts[0]] == [0.0, 2.0]
    assert [part.batch for part in parts[0]] == [0, 5]


class Repeated:
    """Data that can be iterated repeatedly, and counts how often they were asked for."""

    def __init__(self, items: Sequence[int], once: bool) -> None:
        self._items = items
        self._once = once
        self.calls = 0

    def __call__(self) -> Any:
        self.calls += 1
        return iter(self._items) if self._once else list(self._items)


@pytest.mark.parametrize("once", [False, True])
def test_an_epoch_is_an_iteration_of_the_data(once: bool) -> None:
    data = Repeated([1, 2, 3], once)
    epochs = Epochs(data)
    assert [list(epochs.next()) for _ in range(3)] == [[1, 2, 3]] * 3
    assert data.calls == (3 if once else 1)


def test_epochs_of_given_steps_follow_each_other() -> None:
    epochs = Epochs(Repeated([1, 2, 3], True), 2)
    assert [list(epochs.next()) for _ in range(4)] == [[1, 2], [3, 1], [2, 3], [1, 2]]
    assert list(Epochs(Repeated([], False), 2).next()) == []


def test_means_are_over_the_rows_of_all_ranks() -> None:
    means = Means(["loss", "accuracy"])
    means.add([1.0, 0.5], 2)
    means.add([float("nan"), 0.0], 0)  # a batch without rows has no mean
    means.add([4.0, 1.0], 1)
    found = means.over_ranks(lambda values: [value + other for value, other in zip(values, [10.0, 1.0, 5.0])])
    assert found == pytest.approx({"loss": (2 + 4 + 10) / 8, "accuracy": (1 + 1 + 1) / 8})
    assert math.isnan(Means(["loss"]).over_ranks(lambda values: values)["loss"])
