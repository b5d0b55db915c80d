"""Loaders that prepare batches in a thread: the same batches, a bounded queue, errors in order, no threads left."""

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
    """A loader that counts, and fails at a given batch."""

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
    """The same loader, with a thread."""


def running(loader: Numbers) -> bool:
    return any(each.is_alive() for each in loader.makers if each is not threading.main_thread())


def test_the_mixin_is_importable_from_two_modules_and_invalid_uses_are_refused() -> None:
    assert SameMixin is AsyncDataLoaderMixin
    with pytest.raises(TypeError):
        BaseDataLoader()  # type: ignore[abstract]
    with pytest.raises(ValueError, match="async_loader_queue_size"):
        Ahead(async_loader_queue_size=-1, count=1)


@pytest.mark.parametrize("queue", [0, 1, 3, 64])
def test_every_epoch_has_the_same_batches_for_any_queue_size(queue: int) -> None:
    loader = Ahead(queue, False, 7)
    assert len(loader) == 7
    for _ in range(3):
        assert list(loader) == [0, 10, 20, 30, 40, 50, 60]
    assert all(each is threading.main_thread() for each in loader.makers) == (queue == 0)
    assert not running(loader)


def test_the_queue_size_bounds_the_batches_made_ahead() -> None:
    loader = Ahead(async_loader_queue_size=2, count=100)
    batches = iter(loader)
    assert next(batches) == 0
    # One batch is taken, two are in the queue, and one waits to enter it: the thread cannot have made more.
    assert loader.made <= 4
    for taken in range(1, 50):
        assert next(batches) == 10 * taken
        assert loader.made <= taken + 4
    loader.close_async_loader()
    assert list(batches) == []
    assert not running(loader)


@pytest.mark.parametrize("queue", [0, 2])
def test_an_error_is_raised_at_its_batch_and_the_next_epoch_is_complete(queue: int) -> None:
    loader = Ahead(queue, False, count=9, fails_at=3)
    seen = []
    with pytest.raises(RuntimeError, match="no batch 3"):
        for batch in loader:
            seen.append(batch)
    assert seen == [0, 10, 20]
    loader.fails_at = -1
    assert len(list(loader)) == 9


def test_leaving_an_epoch_early_ends_its_thread() -> None:
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


def test_deleting_a_loader_ends_its_thread() -> None:
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


def test_a_verbose_loader_reports_epochs_and_waits(capsys: pytest.CaptureFixture[str]) -> None:
    list(Ahead(2, True, count=3))
    output = capsys.readouterr().out
    assert "Ahead: an epoch begins" in output and "of 3 batches were waited for" in output


class OfSampler(BaseDataLoader):
    """A torch loader over an elastic sampler's share of the data."""

    def __init__(self, sampler: ElasticSampler, data: torch.Tensor) -> None:
        self.loader = torch.utils.data.DataLoader(data, batch_size=4, sampler=sampler)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.loader)

    def _iterate(self) -> Iterator[Any]:
        return iter(self.loader)


class ElasticAhead(AsyncDataLoaderMixin, OfSampler):
    """The same loader, with a thread."""


def test_after_a_reset_the_loader_asks_the_sampler_again(rank: int, size: int) -> None:
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
