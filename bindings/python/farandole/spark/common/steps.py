"""Steps that all ranks take together, though their numbers of batches differ.

Gradients are reduced over all ranks in every step, so all ranks must take the same number of steps. A rank that has
run out of batches takes part without rows until all ranks have run out: no rank hangs, and no row is doubled or
dropped. Ranks exchange the weights of their next batches, so that each row has the same weight in the mean gradient,
however many rows the other ranks contribute to the step. This module is independent of frameworks.
"""

from __future__ import annotations

import itertools
from typing import Any, Callable, Iterable, Iterator, List, NamedTuple, Optional, Sequence

WINDOW = 4
"""Batches that a rank reads ahead, so that the exchange of weights costs little."""

Exchange = Callable[[List[float]], Sequence[float]]
"""Sums a list of numbers over all ranks, element by element. All ranks call it together, with lists of one length."""


class Part(NamedTuple):
    """The part of a rank in a step, or in the pass of a step that has several backward passes.

    :param batch: the batch of this rank; None if this rank has no batch left
    :param weight: the sum of the weights of the batch's rows
    :param scale: the factor for the mean loss over the batch's rows with which the average of the gradients over all
        ranks, summed over the passes of the step, is the gradient of the mean loss over all rows of the step
    :param ends_step: whether this is the last pass of the step
    """

    batch: Optional[Any]
    weight: float
    scale: float
    ends_step: bool


class Steps:
    """The steps of one epoch.

    :param exchange: sums over all ranks
    :param size: number of ranks
    :param weight_of: the weight of a batch: the number of its rows, or the sum of their weights
    :param passes: batches in a step
    :param limit: number of batches after which the epoch ends on all ranks; None to end only when all have run out
    """

    def __init__(
        self,
        exchange: Exchange,
        size: int,
        weight_of: Callable[[Any], float],
        passes: int = 1,
        limit: Optional[int] = None,
    ) -> None:
        self._exchange = exchange
        self._size = size
        self._weight_of = weight_of
        self._passes = passes
        self._limit = limit

    def __call__(self, batches: Iterator[Any]) -> Iterator[Part]:
        """Yields this rank's parts in the steps of an epoch. All ranks get the same number of parts."""
        remaining = self._limit
        window = -(-WINDOW // self._passes) * self._passes
        while remaining is None or remaining > 0:
            count = window if remaining is None else min(window, remaining)
            own: List[Any] = list(itertools.islice(batches, count))
            weights = [float(self._weight_of(batch)) for batch in own] + [0.0] * (count - len(own))
            present = [1.0] * len(own) + [0.0] * (count - len(own))
            totals = self._exchange([*weights, *present])
            yield from self._parts(own, weights, totals[:count], totals[count:])
            if not totals[-1]:
                return
            remaining = None if remaining is None else remaining - count

    def _parts(
        self, own: List[Any], weights: List[float], totals: Sequence[float], present: Sequence[float]
    ) -> Iterator[Part]:
        for start in range(0, len(weights), self._passes):
            step = range(start, min(start + self._passes, len(weights)))
            if not any(present[index] for index in step):
                return
            total = sum(totals[index] for index in step)
            for index in step:
                batch = own[index] if index < len(own) else None
                scale = weights[index] * self._size / total if total else 0.0
                yield Part(batch, weights[index], scale, index == step[-1])


class Epochs:
    """The batches of each epoch, from the data of a data module.

    :param data: returns an iterable of batches. An iterable that can be iterated repeatedly gives an epoch each time.
        An iterator, which can be iterated once, gives an epoch each time that ``data`` is called
    :param steps: number of batches in an epoch. With it, an epoch starts at the batch that follows the last epoch, and
        the data start again as often as necessary. Without it, an epoch is one iteration
    """

    def __init__(self, data: Callable[[], Iterable[Any]], steps: Optional[int] = None) -> None:
        self._data = data
        self._steps = steps
        self._loader: Optional[Iterable[Any]] = None
        self._continued: Iterator[Any] = iter(())

    def next(self) -> Iterator[Any]:
        """The batches of the next epoch."""
        if self._steps is None:
            yield from self._iteration()
            return
        for _ in range(self._steps):
            batch = next(self._continued, _END)
            if batch is _END:
                self._continued = self._iteration()
                batch = next(self._continued, _END)
                if batch is _END:
                    return  # there are no rows for this rank
            yield batch

    def _iteration(self) -> Iterator[Any]:
        if self._loader is None or isinstance(self._loader, Iterator):
            self._loader = self._data()
        return iter(self._loader)


_END = object()


class Means:
    """Means of several values over rows, whose sums all ranks combine.

    :param names: names of the values
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._sums: List[Any] = [0.0] * len(self._names)
        self._weight = 0.0

    def add(self, values: Sequence[Any], weight: float) -> None:
        """Adds the means over rows whose weights sum to ``weight``; numbers, or scalars of a framework."""
        if weight:
            self._sums = [total + value * weight for total, value in zip(self._sums, values)]
            self._weight += weight

    def over_ranks(self, exchange: Exchange) -> dict[str, float]:
        """The means over the rows of all ranks, by name; NaN if no rank has rows. All ranks call it together."""
        *sums, weight = exchange([*(float(total) for total in self._sums), self._weight])
        return {name: total / weight if weight else float("nan") for name, total in zip(self._names, sums)}
