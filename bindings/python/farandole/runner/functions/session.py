"""Workers that stay alive between calls: ``farandole.session()``.

A thread of the session runs the connection to the launcher. Calls run one after the other. While ``run()`` waits, the
workers' output is written by its thread, so that a notebook shows it in the cell that runs.
"""

from __future__ import annotations

import atexit
import math
import os
import queue
import threading
import time
import types
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence

from farandole.runner import launch_options, worker
from farandole.runner.common.util import hosts as host_lists
from farandole.runner.functions import call, job, launcher, paths, pickling, values
from farandole.runner.functions.calls import CallFuture, Calls, Request, Worker, wrong_ranks

if TYPE_CHECKING:
    _Sink = queue.SimpleQueue[Optional[Callable[[], None]]]
    """Functions that write output; None ends the wait."""

INTERRUPT_S = 2.0
"""When a worker has failed, the others of the call are interrupted after this time: the call has failed anyway."""
MOST_WORKERS = 65536
"""The launcher allows no job more slots."""
LEAVE_S = 10.0
"""Workers that do not end within this time after the last call are ended by the launcher."""
_OWN = frozenset(
    ["num_proc", "min_num_proc", "max_num_proc", "session", "call_descriptor", "command", "run_func", "check_build"]
)
"""Attributes of the arguments that the session itself sets, or that start no workers."""
COOLDOWN_S = (1, 60)
"""For how long no worker is started on a host on which one has died: at first, and at most."""


class Session:
    """Workers that stay alive between calls. End them by ``close()``, or use the session in a ``with`` statement.

    A function finds names that an earlier call on the same worker has left in ``farandole.session.state``, or in
    ``state`` of the session. ``hvd`` is initialised, and is initialised again after a call that failed. For each call,
    ``run()`` returns the results by rank. An exception of a function is raised as ``RuntimeError`` with the traceback
    of the first rank, and leaves the workers alive. Ctrl-C interrupts the call on all workers; pressed twice, it ends
    the session.

    A worker that dies ends the session, unless the session is elastic (``min_np``): then it is replaced, and the call
    that it ran fails. The next call has new ranks, and ``hvd`` is initialised again on all workers.
    """

    state = types.SimpleNamespace()
    """On a worker: the names that functions leave for later calls."""

    def __init__(
        self,
        np: int,
        hosts: Optional[str] = None,
        min_np: Optional[int] = None,
        max_np: Optional[int] = None,
        executable: Optional[str] = None,
        initialize: bool = True,
        **settings: Any,
    ) -> None:
        """Starts the workers. Calls wait until all of them run.

        :param np: number of workers
        :param hosts: hosts and their slots, as in "a:2,b:2"; by default this host
        :param min_np: makes the session elastic: workers that die are replaced, and calls begin with at least so many
            if that takes longer than ``start_timeout``
        :param max_np: the greatest number for ``scale()``; by default the number of slots of ``hosts``, if they are
            given
        :param executable: the interpreter of the workers; by default that of the caller
        :param initialize: False leaves ``hvd.init()`` to the functions
        :param settings: other options of ``horovodrun``, with underscores, such as ``start_timeout``
        """
        from farandole.runner.arguments import _HorovodArgs

        arguments = _HorovodArgs()
        unknown = [name for name in settings if name in _OWN or not hasattr(arguments, name)]
        if unknown:
            raise TypeError(
                f"session() has no option {', '.join(unknown)}; options are np, min_np, max_np and those of horovodrun"
            )
        for name, value in settings.items():
            setattr(arguments, name, value)
        if np < 1:
            raise ValueError(f"session({np}): the number of workers must be 1 or more")
        arguments.num_proc, arguments.hosts, arguments.executable = np, hosts, executable
        patience_s = launch_options.timeouts()["start_timeout"]
        patience_s = patience_s if arguments.start_timeout is None else arguments.start_timeout
        self._fewest = 1 if min_np is None else min_np
        slots = sum(each.slots for each in host_lists.parse_hosts(hosts)) if hosts else MOST_WORKERS
        self._most = slots if max_np is None else max_np
        _make_elastic(arguments, self._fewest, max_np, None if min_np is not None else patience_s)
        options = [worker.SESSION, *([worker.INITIALIZE] if initialize else [])]
        self._owner = os.getpid()
        self._calls = Calls(np, min_np, initialize, patience_s, time.monotonic())
        self._lock = threading.RLock()  # a callback of a future may submit a call
        """Guards the fields below and the calls, which the thread of the session and its callers use."""
        self._closed_reason = ""
        self._sinks: List[_Sink] = []
        """Of the threads that wait in ``run()``; the last one gets the output."""
        self._wants_interrupt = False
        self._wants_end = False
        self._is_killed = False
        self._launcher = launcher.Launcher(
            lambda channel: job.command_of(arguments, channel, job.worker_command(arguments, *options)),
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
        results: List[Any] = self._wait(self.submit(function, *args, ranks=ranks))
        return results

    def submit(self, function: Callable[..., Any], *args: Any, ranks: Optional[Sequence[int]] = None) -> CallFuture:
        """Like ``run()``, but returns a future at once, which can also be awaited."""
        self._require_owner()
        chosen = None if ranks is None else list(ranks)
        with self._lock:
            size = self._calls.last_wanted
        if chosen is not None and (not chosen or not set(chosen) <= set(range(size))):
            raise wrong_ranks(chosen, size)
        if chosen is not None and len(set(chosen)) < len(chosen):
            raise ValueError(f"ranks {chosen} name a rank twice: a call runs once on each of its ranks")
        return self._add(Request(pickling.pieces_of((function, args, {}), "(function, args)"), chosen))

    def scale(self, n: int) -> None:
        """Changes the number of workers after all calls that wait, and waits until they run.

        Workers that stay keep their state. The last ranks leave first. ``RuntimeError`` if the hosts have too few free
        slots for longer than ``start_timeout``.
        """
        self._require_owner()
        if not self._fewest <= n <= self._most:
            raise ValueError(
                f"scale({n}): the number of workers of this session must be {self._fewest} to {self._most}, by its "
                "min_np, max_np and the slots of its hosts"
            )
        self._wait(self._add(Request([], size=n)))

    def _add(self, request: Request) -> CallFuture:
        with self._lock:
            if self._closed_reason:
                raise RuntimeError(f"the session has ended and takes no calls: {self._closed_reason}")
            self._calls.add(request)
        self._launcher.wake()
        return request.future

    def put(self, value: Any) -> values.Reference:
        """Sends a value to all workers, once per host. Functions that get the reference find the value in its place.

        The value stays on the workers until the session ends. Workers that come later get it, too, as long as the
        reference exists.
        """
        self._require_owner()
        content = b"".join(pickling.pieces_of(value, "value"))
        reference = values.Reference()
        with self._lock:
            self._calls.put(reference, content)
        self.run(values.nothing)  # before a call, workers load the values that they lack
        return reference

    @property
    def workers(self) -> List[Worker]:
        """The workers that run, by rank."""
        with self._lock:
            return self._calls.workers

    def interrupt(self) -> None:
        """Interrupts the running call on all workers, or a waiting ``scale()``, as Ctrl-C does; the workers stay."""
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
        """A worker has started, is to leave, or has ended; called by the launcher."""
        with self._lock:
            self._calls.on_event(event, time.monotonic())

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

    def _wait(self, future: CallFuture) -> Any:
        """The result of a request. Meanwhile this thread writes the workers' output."""
        sink: _Sink = queue.SimpleQueue()
        with self._lock:
            self._sinks.append(sink)
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
                    if not future.cancel():
                        self.interrupt()
        finally:
            with self._lock:
                self._sinks.remove(sink)
            while not sink.empty():
                write = sink.get()
                if write is not None:
                    write()
        if interrupted:
            raise KeyboardInterrupt
        return future.result()

    def _dispatch(self, write: Callable[[], None]) -> None:
        """Writes output: in the thread that waits in ``run()``, if there is one."""
        with self._lock:
            if self._sinks:
                self._sinks[-1].put(write)
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
                    now = time.monotonic()
                    # Calls that were added after the interrupt have not begun yet.
                    outgoing = self._calls.interrupt() if self._wants_interrupt else []
                    self._wants_interrupt = False
                    outgoing += self._calls.advance(now)
                    if leave_at is None and (reason := self._calls.reason_to_end(now)):
                        break
                    if not self._calls.has_failed:
                        interrupt_at = None
                    elif interrupt_at is None:
                        interrupt_at = now + INTERRUPT_S
                    elif now >= interrupt_at:
                        interrupt_at = math.inf  # once
                        outgoing += self._calls.interrupt()
                    if self._wants_end and leave_at is None:
                        self._closed_reason = reason = "it was closed"
                        leave_at = now + LEAVE_S
                        if not self._calls.are_all_ready or self._is_killed:
                            break
                        outgoing += self._calls.leave()
                for slot, content in outgoing:
                    self._launcher.send(slot, content)
                if leave_at is not None and now >= leave_at:
                    break
                deadline = min(leave_at or math.inf, interrupt_at or math.inf, self._calls.next_time(now) or math.inf)
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
        return call.failure_text(None, self._launcher.stderr.launcher_lines(), self._launcher.exit_code)


def _make_elastic(arguments: Any, fewest: int, most: Optional[int], patience_s: Optional[float]) -> None:
    """Sets the options of the launcher, for which each session is an elastic job.

    :param patience_s: of a session that ends when a worker dies: how long it waits for slots and members
    """
    arguments.session, arguments.min_num_proc, arguments.max_num_proc = True, fewest, most
    if arguments.cooldown_range is None:
        arguments.cooldown_range = COOLDOWN_S
    if arguments.elastic_timeout is None and patience_s is not None:
        arguments.elastic_timeout = patience_s


def _class_of_session() -> Any:
    return Session
