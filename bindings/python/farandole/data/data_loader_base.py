"""A loader yields batches. ``AsyncDataLoaderMixin``, mixed in before it, prepares them ahead in a thread.

    class Loader(AsyncDataLoaderMixin, MyLoader): ...

No framework is needed: batches are the objects that ``_iterate`` yields, of any type.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from typing import Any, Deque, Iterator, Optional


class BaseDataLoader(ABC):
    """A source of batches: ``_iterate`` yields those of one epoch, and ``_process_batch`` may replace each."""

    @abstractmethod
    def __len__(self) -> int:
        """Batches in an epoch."""

    @abstractmethod
    def _iterate(self) -> Iterator[Any]:
        """The batches of one epoch."""

    def __iter__(self) -> Iterator[Any]:
        """One epoch."""
        for batch in self._iterate():
            yield self._process_batch(batch)

    def _process_batch(self, batch: Any) -> Any:
        """Called on each batch by the thread that asked for it, for example to move it to a device."""
        return batch


class AsyncDataLoaderMixin:
    """Runs ``_iterate`` in a thread, ahead of the consumer; must come before the loader among the bases.

    Each iteration is a separate epoch. If it is left early (a ``break``, an elastic reset), its thread ends and the
    batches that it had prepared are dropped: the next iteration begins anew, with the samplers as they are then.

    :param async_loader_queue_size: batches prepared ahead at most; 0 to prepare them when they are asked for, without
        a thread
    :param debug_data_loader: print when an epoch begins and ends, and how often it had to wait for a batch
    """

    def __init__(
        self, async_loader_queue_size: int = 64, debug_data_loader: bool = False, *args: Any, **kwargs: Any
    ) -> None:
        if async_loader_queue_size < 0:
            raise ValueError(f"async_loader_queue_size is a number of batches, not {async_loader_queue_size}")
        self.async_loader_queue_size = async_loader_queue_size
        self.debug_data_loader = debug_data_loader
        self._under_way: Optional[_Ahead] = None
        super().__init__(*args, **kwargs)

    def close_async_loader(self) -> None:
        """Ends the thread, and waits for it; batches that it has prepared are dropped. An iteration in progress sees
        the end of the epoch; a later one begins anew."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.close()

    def __iter__(self) -> Iterator[Any]:
        """One epoch. An exception of ``_iterate`` is raised here, after the batches that precede it."""
        if self.async_loader_queue_size == 0:
            yield from super().__iter__()  # type: ignore[misc]
            return
        self.close_async_loader()
        ahead = self._under_way = _Ahead(self._iterate(), self.async_loader_queue_size)  # type: ignore[attr-defined]
        self._say("an epoch begins")
        try:
            for batch in ahead:
                yield self._process_batch(batch)  # type: ignore[attr-defined]
        finally:
            ahead.close()
            if self._under_way is ahead:
                self._under_way = None
        self._say(f"an epoch ends; {ahead.waits} of {ahead.taken} batches were waited for")

    def _say(self, what: str) -> None:
        if self.debug_data_loader:
            print(f"{type(self).__name__}: {what}", flush=True)


class _Ahead:
    """A thread that runs an iterator, at most ``bound`` items ahead of the consumer.

    ``close`` may be called at any time and any number of times, by any thread but its own.
    """

    def __init__(self, source: Iterator[Any], bound: int) -> None:
        self._source = source
        self._bound = bound
        self._ready: Deque[Any] = deque()
        self._problem: Optional[BaseException] = None
        self._ended = False
        self._closed = False
        self._changed = threading.Condition()
        self.taken = 0
        self.waits = 0
        self._thread = threading.Thread(target=self._run, name="data loader", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for item in self._source:
                if not self._put(item):
                    break
        except BaseException as problem:
            self._problem = problem
        finally:
            close = getattr(self._source, "close", None)
            if close is not None:
                close()  # here, where it ran: a generator's own clean-up
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _put(self, item: Any) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._ready) < self._bound)
            if self._closed:
                return False
            self._ready.append(item)
            self._changed.notify_all()
            return True

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        with self._changed:
            if not self._ready and not self._ended:
                self.waits += 1
            self._changed.wait_for(lambda: self._ready or self._ended or self._closed)
            if self._ready and not self._closed:
                self.taken += 1
                self._changed.notify_all()
                return self._ready.popleft()
            problem, self._problem = self._problem, None
        if problem is not None and not self._closed:
            raise problem
        raise StopIteration

    def close(self) -> None:
        """Ends the thread after the item that it is at, and waits for it."""
        with self._changed:
            self._closed = True
            self._ready.clear()
            self._changed.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join()
