"""Workers that stay alive between calls: ``farandole.session()``.

A thread of the session runs the connection to the launcher. Calls run one after the other. While ``run()`` waits, the
workers' output is written by its thread, so that a notebook shows it in the cell that runs.
"""

from __future__ import annotations

import atexit
import collections
import concurrent.futures
import json
import math
import os
import queue
import threading
import time
import types
from dataclasses import dataclass
from typing import Any, Callable, Deque, Dict, Generator, List, Optional, Sequence

from farandole.runner import worker
from farandole.runner.functions import call, job, launcher, messages, paths, pickling, values

INTERRUPT_S = 2.0
"""When a worker has failed, the others of the call are interrupted after this time: the call has failed anyway."""
LEAVE_S = 10.0
"""Workers that do not end within this time after the last call are ended by the launcher."""


JOINING = 0
"""The number of calls by which workers form a new job."""


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
class _Request:
    """A call that waits or runs."""

    number: int
    pieces: List[bytes]
    ranks: Optional[List[int]]
    future: CallFuture
    state: Optional[call.Call] = None
    slots: Sequence[int] = ()


class Calls:
    """The calls of a session, in their order. A plain class: messages and events go in, and messages come out."""

    def __init__(self, size: int, are_members: bool = False) -> None:
        """
        :param are_members: whether workers are members of a job, which ends when a function fails
        """
        self.size = size
        self._are_members = are_members
        self._must_join_again = False
        self.workers: Dict[int, Worker] = {}
        """By slot."""
        self._ready: Dict[int, bytes] = {}
        """The last READY of each worker that can take a call, by slot."""
        self._waiting: Deque[_Request] = collections.deque()
        self._running: Optional[_Request] = None
        self.ends: List[str] = []
        """How workers have ended, in words."""
        self.last: Optional[call.Call] = None
        """The state of the latest call that was begun."""

    def add(self, request: _Request) -> None:
        """Adds a call behind all others."""
        self._waiting.append(request)

    def on_event(self, event: Dict[str, Any]) -> None:
        """A worker has started or ended."""
        slot = event["slot"]
        if event["event"] == "started":
            self.workers[slot] = Worker(slot, event["host"], event["process"])
            return
        self._ready.pop(slot, None)
        ended = self.workers.pop(slot, None)
        if ended is not None:
            self.ends.append(f"rank {ended.rank} on host {ended.host} {event['manner']}")
        if self._running is not None and self._running.state is not None and slot in self._running.slots:
            self._running.state.on_event(event)

    def on_message(self, slot: int, kind: int, body: bytes) -> None:
        """A worker has sent a message."""
        if kind == messages.READY:
            place = json.loads(body)
            self._ready[slot] = body
            self.workers[slot] = Worker(
                slot if place["rank"] is None else place["rank"], place["host"], place["process"]
            )
        elif self._running is not None and self._running.state is not None:
            self._running.state.on_message(slot, kind, body)

    @property
    def are_all_ready(self) -> bool:
        """Whether every worker can take a call."""
        return len(self._ready) == self.size

    @property
    def idle_slots(self) -> List[int]:
        """The slots of workers that can take a call."""
        return list(self._ready)

    def advance(self) -> List[Any]:
        """Settles the call that all of its workers have ended, begins the next one, and returns messages by slot."""
        outgoing: List[Any] = []
        while True:
            if self._running is not None:
                assert self._running.state is not None
                outgoing += self._running.state.take_outgoing()
                if not all(
                    slot in self._ready and self._running.state.has_settled(slot) for slot in self._running.slots
                ):
                    return outgoing
                request, self._running = self._running, None
                self._settle(request)
            if not self._waiting or not self.are_all_ready:
                return outgoing
            self._begin(self._joining() if self._must_join_again else self._waiting.popleft())

    def _joining(self) -> _Request:
        """A call by which all workers form a new job."""
        self._must_join_again = False
        return _Request(JOINING, pickling.pieces_of((worker.join_job_again, (), {}), "function"), None, CallFuture())

    def _settle(self, request: _Request) -> None:
        assert request.state is not None
        if request.state.failures:
            self._must_join_again = self._are_members
        _set_outcome(request)
        problem = request.future.exception()
        if request.number == JOINING and problem is not None and self._waiting:
            waiting = self._waiting.popleft()
            if waiting.future.set_running_or_notify_cancel():
                waiting.future.set_exception(problem)

    @property
    def has_failed(self) -> bool:
        """Whether a worker of the running call has failed."""
        return self._running is not None and self._running.state is not None and bool(self._running.state.failures)

    def _begin(self, request: _Request) -> None:
        if not request.future.set_running_or_notify_cancel():
            return
        slots = {self.workers[slot].rank: slot for slot in self._ready}
        request.ranks = sorted(slots) if request.ranks is None else request.ranks
        request.slots = [slots[rank] for rank in request.ranks]
        request.state = self.last = call.Call(request.pieces, paths.folders_of_caller(), number=request.number)
        self._running = request
        for slot in request.slots:
            request.state.on_message(slot, messages.READY, self._ready.pop(slot))

    def interrupted(self) -> List[Any]:
        """The messages that interrupt the running call, by slot."""
        if self._running is None:
            return []
        content = messages.json_message(messages.INTERRUPT, {"call": self._running.number})
        return [(slot, content) for slot in self._running.slots if slot not in self._ready]

    def fail(self, text: str) -> None:
        """All calls fail."""
        requests = [*([self._running] if self._running else []), *self._waiting]
        self._running = None
        self._waiting.clear()
        for request in requests:
            if request.state is not None or request.future.set_running_or_notify_cancel():
                request.future.set_exception(RuntimeError(text))


def _set_outcome(request: _Request) -> None:
    assert request.state is not None and request.ranks is not None
    failures = sorted(request.state.failures, key=lambda each: (each.consequence, each.rank))
    if not failures:
        request.future.set_result([request.state.result_of(rank) for rank in request.ranks])
        return
    first, *others = failures
    where = first.where()
    text = f"{where[0].upper()}{where[1:]} {first.text}"
    if others:
        text += "\nAlso failed: " + "; ".join(f"{each.where()} {each.text}" for each in others)
    request.future.set_exception(RuntimeError(f"{text}\n{first.traceback}".rstrip()))


class Session:
    """Workers that stay alive between calls. End them by ``close()``, or use the session in a ``with`` statement.

    A function finds names that an earlier call on the same worker has left in ``farandole.session.state``, or in
    ``state`` of the session. ``hvd`` is initialised, and is initialised again after a call that failed. For each call,
    ``run()`` returns the results by rank. An exception of a function is raised as ``RuntimeError`` with the traceback
    of the first rank, and leaves the workers alive. Ctrl-C interrupts the call on all workers; pressed twice, it ends
    the session.
    """

    state = types.SimpleNamespace()
    """On a worker: the names that functions leave for later calls."""

    def __init__(
        self,
        np: int,
        hosts: Optional[str] = None,
        executable: Optional[str] = None,
        initialize: bool = True,
        **settings: Any,
    ) -> None:
        """Starts the workers. Calls wait until all of them run.

        :param np: number of workers
        :param hosts: hosts and their slots, as in "a:2,b:2"; by default this host
        :param executable: the interpreter of the workers; by default that of the caller
        :param initialize: False leaves ``hvd.init()`` to the functions
        :param settings: other options of ``horovodrun``, with underscores, such as ``start_timeout``
        """
        from farandole.runner.arguments import _HorovodArgs

        arguments = _HorovodArgs()
        settings = {"num_proc": np, "hosts": hosts, "executable": executable, **settings}
        unknown = [name for name in settings if not hasattr(arguments, name)]
        if unknown:
            raise TypeError(f"session() has no option {', '.join(unknown)}; options are those of horovodrun")
        for name, value in settings.items():
            setattr(arguments, name, value)
        options = [worker.SESSION, *([worker.INITIALIZE] if initialize else [])]
        self._owner = os.getpid()
        self._calls = Calls(np, initialize)
        self._lock = threading.RLock()  # a callback of a future may submit a call
        """Guards the fields below and the calls, which the thread of the session and its callers use."""
        self._closed_reason = ""
        self._number = 0
        self._sink: Optional[queue.SimpleQueue[Optional[Callable[[], None]]]] = None
        self._wants_interrupt = False
        self._wants_end = False
        self._is_killed = False
        self._launcher = launcher.Launcher(
            lambda channel: job.command_of(arguments, channel, options),
            paths.environment_of(executable),
            self,
            self._dispatch,
        )
        self._thread = threading.Thread(target=self._serve, name="farandole session", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __reduce__(self) -> Any:
        # A function that uses the session finds its state on the worker.
        return _class_of_session, ()

    def run(self, function: Callable[..., Any], *args: Any, ranks: Optional[Sequence[int]] = None) -> List[Any]:
        """Calls the function on all workers, or on some ranks, and returns the results in the order of the ranks."""
        return self._wait(self.submit(function, *args, ranks=ranks))

    def submit(self, function: Callable[..., Any], *args: Any, ranks: Optional[Sequence[int]] = None) -> CallFuture:
        """Like ``run()``, but returns a future at once, which can also be awaited."""
        self._require_owner()
        chosen = None if ranks is None else list(ranks)
        if chosen is not None and (not chosen or not set(chosen) <= set(range(self._calls.size))):
            raise ValueError(f"ranks {chosen} are not all ranks of this session, which has 0 to {self._calls.size - 1}")
        pieces = pickling.pieces_of((function, args, {}), "(function, args)")
        future = CallFuture()
        with self._lock:
            if self._closed_reason:
                raise RuntimeError(f"the session has ended and takes no calls: {self._closed_reason}")
            self._number += 1
            self._calls.add(_Request(self._number, pieces, chosen, future))
        self._launcher.wake()
        return future

    def put(self, value: Any) -> values.Reference:
        """Sends a value to all workers, once per host. Functions that get the reference find the value in its place.

        The value stays on the workers until the session ends.
        """
        content = b"".join(pickling.pieces_of(value, "value"))
        self._wait_until_ready()
        leaders: Dict[str, int] = {}
        for each in sorted(self.workers, key=lambda each: each.rank):
            leaders.setdefault(each.host, each.rank)
        reference = values.Reference()
        places = dict(zip(leaders, self.run(values.keep, reference.key, content, ranks=list(leaders.values()))))
        others = [each.rank for each in self.workers if each.rank not in leaders.values()]
        if others:
            loaded = self.run(values.load, reference.key, places, ranks=others)
            missing = [rank for rank, was_loaded in zip(others, loaded) if not was_loaded]
            if missing:
                self.run(values.keep, reference.key, content, ranks=missing)
        self.run(values.release, reference.key)
        return reference

    @property
    def workers(self) -> List[Worker]:
        """The workers that run, by rank."""
        with self._lock:
            return sorted(self._calls.workers.values(), key=lambda each: each.rank)

    def interrupt(self) -> None:
        """Interrupts the running call on all workers, as Ctrl-C does; the workers stay."""
        self._require_owner()
        self._wants_interrupt = True
        self._launcher.wake()

    def close(self) -> None:
        """Ends the workers. Calls that have not ended fail."""
        if os.getpid() != self._owner:
            return  # of a forked child
        atexit.unregister(self.close)
        self._wants_end = True
        if self._thread.is_alive():
            self._launcher.wake()
        if threading.current_thread() is not self._thread:  # a callback of a future may close the session
            self._thread.join()

    def on_event(self, event: Dict[str, Any]) -> None:
        """A worker has started or ended; called by the launcher."""
        with self._lock:
            self._calls.on_event(event)

    def on_message(self, slot: int, kind: int, body: bytes) -> None:
        """A worker has sent a message; called by the launcher."""
        with self._lock:
            self._calls.on_message(slot, kind, body)

    def _require_owner(self) -> None:
        if os.getpid() != self._owner:
            raise RuntimeError(
                f"this session belongs to process {self._owner}, and process {os.getpid()} was forked from it; use the "
                "session in the parent, or start one here"
            )

    def _wait_until_ready(self) -> None:
        """Waits until all workers run; an empty call says so."""
        self.run(values.nothing)

    def _wait(self, future: CallFuture) -> List[Any]:
        """The result of a call. Meanwhile this thread writes the workers' output."""
        sink: queue.SimpleQueue[Optional[Callable[[], None]]] = queue.SimpleQueue()
        with self._lock:
            before, self._sink = self._sink, sink
        future.add_done_callback(lambda _: sink.put(None))
        interrupted = False
        try:
            while True:
                try:
                    write = sink.get()
                    if write is None:
                        break
                    write()
                except KeyboardInterrupt:
                    if interrupted:
                        self._is_killed = True
                        self.close()
                        raise
                    interrupted = True
                    self.interrupt()
        finally:
            with self._lock:
                self._sink = before
            while not sink.empty():
                write = sink.get()
                if write is not None:
                    write()
        if interrupted:
            raise KeyboardInterrupt
        results: List[Any] = future.result()
        return results

    def _dispatch(self, write: Callable[[], None]) -> None:
        """Writes output: in the thread that waits in ``run()``, if there is one."""
        with self._lock:
            if self._sink is not None:
                self._sink.put(write)
                return
        write()

    def _serve(self) -> None:
        """The thread of the session."""
        reason = ""
        try:
            leave_at: Optional[float] = None
            interrupt_at: Optional[float] = None
            while self._launcher.is_running:
                with self._lock:
                    outgoing = self._calls.advance()
                    if not self._calls.has_failed:
                        interrupt_at = None
                    elif interrupt_at is None:
                        interrupt_at = time.monotonic() + INTERRUPT_S
                    elif time.monotonic() >= interrupt_at:
                        interrupt_at = math.inf  # once
                        self._wants_interrupt = True
                    if self._wants_interrupt:
                        self._wants_interrupt = False
                        outgoing += self._calls.interrupted()
                    if self._wants_end and leave_at is None:
                        self._closed_reason = reason = "it was closed"
                        leave_at = time.monotonic() + LEAVE_S
                        if not self._calls.are_all_ready or self._is_killed:
                            break
                        outgoing += [(slot, messages.message(messages.LEAVE)) for slot in self._calls.idle_slots]
                for slot, content in outgoing:
                    self._launcher.send(slot, content)
                if leave_at is not None and time.monotonic() >= leave_at:
                    break
                deadline = min(leave_at or math.inf, interrupt_at or math.inf)
                self._launcher.step(None if deadline == math.inf else max(0.0, deadline - time.monotonic()))
        except Exception as problem:
            reason = f"{type(problem).__name__}: {problem}"
        finally:
            self._end(reason)

    def _end(self, reason: str) -> None:
        with self._lock:
            self._wants_end = True
        self._launcher.close()
        with self._lock:
            self._closed_reason = reason or self._reason()
            self._calls.fail(f"the session has ended: {self._closed_reason}")

    def _reason(self) -> str:
        """Why the launcher has ended by itself."""
        lines = self._launcher.stderr.launcher_lines()
        code = self._launcher.exit_code
        ends = "; ".join(self._calls.ends[:1])
        text = call.failure_text(None, lines, code)
        return f"{ends}\n{text}" if ends else text


def _class_of_session() -> Any:
    return Session
