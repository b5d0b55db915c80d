"""Loaders that prepare batches ahead: the same batches, a bounded queue, errors in their place, no threads left."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any, Iterator, List

import horovod.torch as hvd
import pytest
import torch
from horovod.data import AsyncDataLoaderMixin, BaseDataLoader
from horovod.data.data_loader_base import AsyncDataLoaderMixin as SameMixin
from horovod.torch.elastic import ElasticSampler


class Numbers(BaseDataLoader):
    """Counts, and fails where it is told to."""

    def __init__(self, count: int, fails_at: int = -1) -> None:
        self.count = count
        self.fails_at = fails_at
        self.made = 0
        self.makers: List[threading.Thread] = []

    def __len__(self) -> int:
        return self.count

    def _iterate(self) -> Iterator[int]:
        self.makers.append(threading.current_thread())
        for number in range(self.count):
            if number == self.fails_at:
                raise RuntimeError(f"no batch {number}")
            self.made = number + 1
            yield number

    def _process_batch(self, batch: int) -> int:
        assert threading.current_thread() not in self.makers or self.makers[-1] is threading.main_thread()
        return batch * 10


class Ahead(AsyncDataLoaderMixin, Numbers):
    """The same, with a thread."""


def running(loader: Numbers) -> bool:
    return any(each.is_alive() for each in loader.makers if each is not threading.main_thread())


def test_names() -> None:
    assert SameMixin is AsyncDataLoaderMixin
    with pytest.raises(TypeError):
        BaseDataLoader()  # type: ignore[abstract]
    with pytest.raises(ValueError, match="async_loader_queue_size"):
        Ahead(async_loader_queue_size=-1, count=1)


@pytest.mark.parametrize("queue", [0, 1, 3, 64])
def test_every_epoch_has_the_same_batches(queue: int) -> None:
    loader = Ahead(queue, False, 7)
    assert len(loader) == 7
    for _ in range(3):
        assert list(loader) == [0, 10, 20, 30, 40, 50, 60]
    assert all(each is threading.main_thread() for each in loader.makers) == (queue == 0)
    assert not running(loader)


def test_the_queue_is_bounded() -> None:
    loader = Ahead(async_loader_queue_size=2, count=100)
    batches = iter(loader)
    assert next(batches) == 0
    # One is taken, two wait in the queue, one waits to come in: no more can have been made.
    assert loader.made <= 4
    for taken in range(1, 50):
        assert next(batches) == 10 * taken
        assert loader.made <= taken + 4
    loader.close_async_loader()
    assert list(batches) == []
    assert not running(loader)


@pytest.mark.parametrize("queue", [0, 2])
def test_errors_come_in_their_place(queue: int) -> None:
    loader = Ahead(queue, False, count=9, fails_at=3)
    seen = []
    with pytest.raises(RuntimeError, match="no batch 3"):
        for batch in loader:
            seen.append(batch)
    assert seen == [0, 10, 20]
    loader.fails_at = -1
    assert len(list(loader)) == 9


def test_an_epoch_that_is_left_early_is_over() -> None:
    loader = Ahead(async_loader_queue_size=4, count=1000)
    for batch in loader:
        if batch == 30:
            break
    gc.collect()
    assert not running(loader)
    first = next(iter(loader))
    assert first == 0
    loader.close_async_loader()
    loader.close_async_loader()
    assert not running(loader)


def test_a_loader_that_is_dropped_ends_its_thread() -> None:
    loader = Ahead(async_loader_queue_size=2, count=1000)
    batches = iter(loader)
    next(batches)
    maker = loader.makers[0]
    gone = weakref.ref(loader)
    del loader, batches
    gc.collect()
    assert gone() is None
    maker.join(60)
    assert not maker.is_alive()


def test_it_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    list(Ahead(2, True, count=3))
    said = capsys.readouterr().out
    assert "Ahead: an epoch begins" in said and "of 3 batches were waited for" in said


class OfSampler(BaseDataLoader):
    """A torch loader over an elastic sampler's share of the data."""

    def __init__(self, sampler: ElasticSampler, data: torch.Tensor) -> None:
        self.loader = torch.utils.data.DataLoader(data, batch_size=4, sampler=sampler)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.loader)

    def _iterate(self) -> Iterator[Any]:
        return iter(self.loader)


class ElasticAhead(AsyncDataLoaderMixin, OfSampler):
    """The same, with a thread."""


def test_after_a_reset_the_sampler_is_asked_anew(rank: int, size: int) -> None:
    data = torch.arange(16.0 * size)
    sampler = ElasticSampler(data, shuffle=True, seed=1)
    sampler.set_epoch(0)
    loader = ElasticAhead(async_loader_queue_size=2, sampler=sampler, data=data)
    seen: List[torch.Tensor] = []
    for number, batch in enumerate(loader):
        seen.append(batch)
        sampler.record_batch(number, 4)
        if number == 1:
            break  # as an interrupt of the elastic loop would
    sampler.reset()
    seen += list(loader)
    everywhere = hvd.allgather(torch.cat(seen), name="seen")
    assert sorted(everywhere.tolist()) == data.tolist()
