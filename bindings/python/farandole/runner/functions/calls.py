"""The calls of a session and its workers: which workers take the next call, and what must happen before it.

Plain classes: messages, events and the time go in, and messages for workers come out.
"""

from __future__ import annotations

import collections
import concurrent.futures
import json
import weakref
from dataclasses import dataclass, field
from typing import Any, Deque, Dict, Generator, List, Optional, Sequence, Set, Tuple

from farandole.runner import worker
from farandole.runner.functions import call, messages, paths, pickling, values
from farandole.runner.functions.delivery import Delivery


@dataclass(frozen=True)
class Worker:
    """A worker of a session."""

    rank: int
    host: str
    process: int


class CallFuture(concurrent.futures.Future):
    """The future result of a call; can be awaited, too."""

    def __await__(self) -> Generator[Any, None, Any]:
        import asyncio

        return asyncio.wrap_future(self).__await__()


@dataclass
class Request:
    """A call that waits or runs, or a change of the number of workers (``size``)."""

    pieces: List[bytes]
    ranks: Optional[List[int]] = None
    size: Optional[int] = None
    future: CallFuture = field(default_factory=CallFuture)
    has_begun: bool = False
    """Of a change: the launcher knows of it."""
    prepares: bool = False
    """Whether it prepares workers for a call of the user: they form a job, or load a value."""


@dataclass
class _Process:
    """A worker that runs."""

    host: str
    process: int
    rank: int
    since: float
    """When it was started."""
    has_served: bool = False
    """Whether it has ever been ready for a call."""
    is_ready: bool = False
    """Whether it can take a call."""
    ready_body: bytes = b""
    """Of its last READY; ``place`` is its content."""
    place: Dict[str, Any] = field(default_factory=dict)
    is_leaving: bool = False
    loaded: Set[str] = field(default_factory=set)
    """Keys of the values that it was sent."""


@dataclass
class _Running:
    """A call that runs on the workers in some slots."""

    number: int
    request: Request
    state: call.Call
    ranks: Dict[int, int]
    """By slot."""


class Calls:
    """The calls of a session, in their order, and its workers.

    A call begins when the session has as many workers as are wanted. In an elastic session, a worker that has died is
    replaced by the launcher. If that takes longer than ``patience_s``, the call begins with at least ``fewest``
    workers. In other sessions, ``reason_to_end`` says which worker has died.

    Ranks follow the slots: workers that stay keep their order, and new ones come last.
    """

    def __init__(
        self, size: int, fewest: Optional[int] = None, are_members: bool = False, patience_s: float = 30, now: float = 0
    ) -> None:
        """
        :param fewest: the number of workers with which an elastic session goes on; None: it is not elastic
        :param are_members: whether workers form a job, which they do anew when they have changed, or a call has failed
        :param patience_s: how long a call waits for workers that are missing
        """
        self.wanted = size
        """How many workers there are to be."""
        self._fewest = fewest
        self._are_members = self._must_join = are_members
        self._patience_s = patience_s
        self._changed_at = now
        self._processes: Dict[int, _Process] = {}
        self._retired_early: Set[int] = set()
        """Slots whose workers were told to leave before their start was reported."""
        self._waiting: Deque[Request] = collections.deque()
        self._running: Optional[_Running] = None
        self._number = 0
        """Of the latest call."""
        self._has_lost_workers = False
        """Whether workers have died or were told to leave since the running call began."""
        self._values: weakref.WeakKeyDictionary[values.Reference, bytes] = weakref.WeakKeyDictionary()
        self._delivery: Optional[Delivery] = None
        self._outgoing: List[Tuple[int, bytes]] = []
        self._first_end = ""
        """How the first worker that has died did so, in words."""

    # ---- requests of the user ----

    def add(self, request: Request) -> None:
        """Adds a call, or a change of the number of workers, behind all others."""
        self._waiting.append(request)

    @property
    def last_wanted(self) -> int:
        """How many workers there are to be after all changes that wait and were not cancelled."""
        waiting = (each for each in reversed(self._waiting) if not each.has_begun and not each.future.cancelled())
        return next((each.size for each in waiting if each.size is not None), self.wanted)

    def put(self, reference: values.Reference, content: bytes) -> None:
        """All workers, also those that come later, load this value before their next call."""
        self._values[reference] = content

    @property
    def workers(self) -> List[Worker]:
        """The workers that run and do not leave, by rank; during a change, with the ranks of the next call."""
        staying = self._staying.values()
        return sorted((Worker(each.rank, each.host, each.process) for each in staying), key=lambda each: each.rank)

    # ---- messages of the launcher ----

    def on_event(self, event: Dict[str, Any], now: float) -> None:
        """A worker has started, is to leave, or has ended."""
        slot = event["slot"]
        if event["event"] == "started":
            is_leaving = slot in self._retired_early
            self._retired_early.discard(slot)
            self._processes[slot] = _Process(event["host"], event["process"], slot, now, is_leaving=is_leaving)
            self._change(now)
        elif event["event"] == "retired":
            if slot in self._processes:
                self._processes[slot].is_leaving = self._has_lost_workers = True
                self._change(now)
            else:
                self._retired_early.add(slot)
            if self._fewest is None and len(self._staying) < self.wanted:  # it was drained
                self._resize(self.wanted - 1)
        else:
            self._on_end(slot, event, now)

    def _on_end(self, slot: int, event: Dict[str, Any], now: float) -> None:
        ended = self._processes.pop(slot, None)
        was_to_leave = slot in self._retired_early if ended is None else ended.is_leaving
        self._retired_early.discard(slot)
        if not was_to_leave:
            name = f"the worker in slot {slot}" if ended is None else f"rank {ended.rank} on host {ended.host}"
            self._first_end = self._first_end or f"{name} {event['manner']}"
            self._has_lost_workers = True
            self._change(now)
        if self._running is not None and slot in self._running.ranks:
            self._running.state.on_event(event)

    def _change(self, now: float) -> None:
        """The workers have changed."""
        self._changed_at = now
        self._must_join = self._are_members
        for rank, each in enumerate(process for _, process in sorted(self._staying.items())):
            each.rank = rank

    def on_message(self, slot: int, kind: int, body: bytes) -> None:
        """A worker has sent a message."""
        if kind != messages.READY:
            if self._running is not None and slot in self._running.ranks:
                self._running.state.on_message(slot, kind, body)
            return
        process = self._processes[slot]
        process.is_ready = process.has_served = True
        if body != process.ready_body:  # it rarely changes
            process.ready_body, process.place = body, json.loads(body)
            process.host, process.process = process.place["host"], process.place["process"]
        running = self._running
        is_late = running is not None and slot not in running.ranks and not process.is_leaving
        if running is not None and is_late and self._is_joining(running):
            self._send_call(running, slot)  # the job waits for all workers that have been started

    def _is_joining(self, running: _Running) -> bool:
        """Whether the call forms a job, and nothing has happened because of which it must form again."""
        is_undisturbed = not running.state.failures and not self._has_lost_workers
        return running.request.prepares and self._delivery is None and is_undisturbed

    # ---- decisions ----

    @property
    def _staying(self) -> Dict[int, _Process]:
        return {slot: each for slot, each in self._processes.items() if not each.is_leaving}

    @property
    def are_all_ready(self) -> bool:
        """Whether every worker can take a call."""
        return bool(self._processes) and all(each.is_ready for each in self._processes.values())

    @property
    def has_failed(self) -> bool:
        """Whether a worker of the running call has failed."""
        return self._running is not None and bool(self._running.state.failures)

    def reason_to_end(self, now: float) -> str:
        """Why the session must end; empty if it goes on."""
        if self._fewest is None and self._first_end:
            return self._first_end
        if self.wanted == 0 and not self._processes:
            return "all of its workers were told to leave, as by farandole drain or by the end of their hosts"
        for each in self._processes.values():
            if not each.has_served and now >= each.since + self._patience_s:
                problem = TimeoutError(
                    f"the worker in process {each.process} on host {each.host} was started {now - each.since:.0f} s "
                    f"ago and is not ready yet (start_timeout is {self._patience_s:g} s): look at its output, or give "
                    "it more time"
                )
                return str(problem)
        return ""

    def next_time(self, now: float) -> Optional[float]:
        """When to call ``advance`` and ``reason_to_end`` even if nothing happens; None: at no time."""
        times = [each.since + self._patience_s for each in self._processes.values() if not each.has_served]
        if self._waiting and self._running is None and not self._is_complete:
            times.append(self._changed_at + self._patience_s)
        return min((each for each in times if each > now), default=None)

    @property
    def _is_complete(self) -> bool:
        return len(self._staying) == self.wanted

    def _may_begin(self, now: float) -> bool:
        staying = self._staying
        if not staying or not all(each.is_ready for each in staying.values()):
            return False
        has_waited = now >= self._changed_at + self._patience_s
        return self._is_complete or (has_waited and self._fewest is not None and len(staying) >= self._fewest)

    def advance(self, now: float) -> List[Tuple[int, bytes]]:
        """Settles the call that all of its workers have ended, begins the next one, and returns messages by slot."""
        while self._settle() and (self._running is not None or self._begin_next(now)):
            pass
        for slot, each in self._processes.items():
            if each.is_leaving and each.is_ready:
                each.is_ready = False
                self._outgoing.append((slot, messages.message(messages.LEAVE)))
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    def _settle(self) -> bool:
        """Settles the running call, or begins the next step of a delivery. Returns False while the call runs."""
        running = self._running
        if running is None:
            return True
        self._outgoing += running.state.take_outgoing()
        for slot in running.ranks:
            process = self._processes.get(slot)
            if not running.state.has_settled(slot) or (process is not None and not process.is_ready):
                return False
        self._running = None
        if running.state.failures:
            self._must_join = self._are_members
        if not running.request.prepares:
            _set_outcome(running)
        elif self._has_lost_workers:
            self._delivery = None  # the preparation begins again with the workers that remain
        elif running.state.failures:
            if self._delivery is not None:
                self._end_delivery()  # it would fail again, and not all calls use the value
            self._fail_next(_failure_of(running.state))
        elif self._delivery is not None:
            self._deliver({slot: running.state.result_of(rank) for slot, rank in running.ranks.items()})
        else:
            self._have_joined(running)
        return True

    def _have_joined(self, running: _Running) -> None:
        self._must_join = not self._staying.keys() <= running.ranks.keys()
        for slot in running.ranks:
            process = self._processes[slot]
            process.rank = process.place["rank"]

    def _fail_next(self, problem: Exception) -> None:
        if self._waiting:
            waiting = self._waiting.popleft()
            if waiting.has_begun or waiting.future.set_running_or_notify_cancel():
                waiting.future.set_exception(problem)

    def _begin_next(self, now: float) -> bool:
        """Begins the next call, or a change. Returns whether there may be more to do."""
        if not self._waiting:
            return False
        request = self._waiting[0]
        if not self._may_begin(now):
            return request.has_begun and self._give_up(now)
        if request.size is not None and not request.has_begun:
            return self._begin_change(request, now)
        self._has_lost_workers = False
        staying = sorted(self._staying)
        if self._must_join:
            pieces = pickling.pieces_of((worker.join_job_again, (), {}), "function")
            self._begin(Request(pieces, prepares=True), staying)
            return True
        self._delivery = self._next_delivery()
        if self._delivery is not None:
            self._deliver(None)
            return True
        self._waiting.popleft()
        if request.size is not None:
            self._end_change(request)
        elif request.future.set_running_or_notify_cancel():
            slots = {self._processes[slot].rank: slot for slot in staying}
            request.ranks = sorted(slots) if request.ranks is None else request.ranks
            if set(request.ranks) <= set(slots):
                self._begin(request, [slots[rank] for rank in request.ranks])
            else:
                request.future.set_exception(wrong_ranks(request.ranks, len(slots)))
        return True

    # ---- the number of workers ----

    def _resize(self, size: int) -> None:
        self.wanted = size
        self._outgoing.append((messages.EVENT_SLOT, messages.WORKERS.pack(size)))

    def _begin_change(self, request: Request, now: float) -> bool:
        assert request.size is not None
        request.has_begun = request.future.set_running_or_notify_cancel()
        if not request.has_begun:
            self._waiting.popleft()
        elif request.size != self.wanted:
            self._changed_at = now
            self._resize(request.size)
        return True

    def _end_change(self, request: Request) -> None:
        if len(self._staying) == request.size:
            request.future.set_result(None)
        else:
            request.future.set_exception(self._shortage(request))

    def _give_up(self, now: float) -> bool:
        """Ends a change for which there are too few workers, after some time. Returns whether it did."""
        if self._is_complete or now < self._changed_at + self._patience_s:
            return False
        request = self._waiting.popleft()
        request.future.set_exception(self._shortage(request))
        if self._fewest is None:  # it goes on with those that it has
            self._resize(len(self._staying))
        return True

    def _interrupt_change(self) -> None:
        """Ends a change that waits for workers. The session goes on with those that it has."""
        if not self._waiting or not self._waiting[0].has_begun or self._is_complete:
            return
        request = self._waiting.popleft()
        count = len(self._staying)
        request.future.set_exception(self._interruption(request))
        if count < self.wanted:
            self._resize(max(count, self._fewest or 1))

    def _interruption(self, request: Request) -> RuntimeError:
        return RuntimeError(
            f"scale() was interrupted when the session had {len(self._staying)} of the {request.size} workers"
        )

    def _shortage(self, request: Request) -> RuntimeError:
        return RuntimeError(
            f"the session has {len(self._staying)} of the {request.size} workers for which scale() has waited "
            f"{self._patience_s:g} s (start_timeout): its hosts have too few slots that can be used; the launcher's "
            "messages say why"
        )

    # ---- calls ----

    def _begin(self, request: Request, slots: List[int]) -> None:
        self._number += 1
        ranks: Dict[int, int] = {}
        state = call.Call(request.pieces, paths.folders_of_caller(), number=self._number, ranks=ranks)
        self._running = _Running(self._number, request, state, ranks)
        for slot in slots:
            self._send_call(self._running, slot)

    def _send_call(self, running: _Running, slot: int) -> None:
        process = self._processes[slot]
        assert process.is_ready
        process.is_ready = False
        running.ranks[slot] = process.rank
        running.state.begin(slot, process.place)

    def _next_delivery(self) -> Optional[Delivery]:
        """The delivery of a value that some workers lack."""
        for reference, content in list(self._values.items()):
            lacking: Dict[str, List[int]] = {}
            for slot, process in sorted(self._staying.items()):
                if reference.key not in process.loaded:
                    lacking.setdefault(process.host, []).append(slot)
            if lacking:
                return Delivery(reference.key, content, lacking)
        return None

    def _deliver(self, results: Optional[Dict[int, Any]]) -> None:
        """Begins the next step of the delivery, if there is one."""
        assert self._delivery is not None
        step = self._delivery.next_step(results)
        if step is None:
            self._end_delivery()
            return
        pieces = pickling.pieces_of((step.function, step.arguments, {}), "value")
        self._begin(Request(pieces, prepares=True), step.slots)

    def _end_delivery(self) -> None:
        assert self._delivery is not None
        for slot in self._delivery.slots:
            self._processes[slot].loaded.add(self._delivery.key)
        self._delivery = None

    def interrupt(self) -> List[Tuple[int, bytes]]:
        """Returns the messages that interrupt the running call, by slot. Ends a change that waits for workers."""
        running = self._running
        if running is None:
            self._interrupt_change()
            return []
        content = messages.json_message(messages.INTERRUPT, {"call": running.number})
        processes = self._processes
        return [(slot, content) for slot in running.ranks if slot in processes and not processes[slot].is_ready]

    def leave(self) -> List[Tuple[int, bytes]]:
        """The session ends: the messages by which all workers leave, which must be ready."""
        for each in self._processes.values():
            each.is_leaving, each.is_ready = True, False
        last = [(slot, messages.message(messages.LEAVE)) for slot in self._processes]
        return [(messages.EVENT_SLOT, messages.WORKERS.pack(0)), *last]

    def fail(self, text: str) -> None:
        """All workers have ended, and all calls fail."""
        self._processes.clear()
        running, self._running = self._running, None
        if running is not None and not running.request.prepares:
            running.request.future.set_exception(RuntimeError(text))
        requests = list(self._waiting)
        self._waiting.clear()
        for request in requests:
            if request.has_begun or request.future.set_running_or_notify_cancel():
                request.future.set_exception(RuntimeError(text))


def wrong_ranks(ranks: Sequence[int], size: int) -> ValueError:
    """The exception of a call that cannot run on these ranks."""
    return ValueError(f"ranks {list(ranks)} are not all ranks of this session, which has 0 to {size - 1}")


def _set_outcome(running: _Running) -> None:
    state, ranks = running.state, running.request.ranks
    assert ranks is not None
    if state.failures:
        running.request.future.set_exception(_failure_of(state))
    else:
        running.request.future.set_result([state.result_of(rank) for rank in ranks])


def _failure_of(state: call.Call) -> RuntimeError:
    first, *others = sorted(state.failures, key=lambda each: (each.consequence, each.rank))
    where = first.where()
    text = f"{where[0].upper()}{where[1:]} {first.text}"
    if others:
        text += "\nAlso failed: " + "; ".join(f"{each.where()} {each.text}" for each in others)
    return RuntimeError(f"{text}\n{first.traceback}".rstrip())
