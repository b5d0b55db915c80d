"""The launcher as a child process of this interpreter: a socket for calls and results, and two pipes for its output.

The launcher is a process of its own, so that threads, signals and a forked or restarted interpreter are safe. It has a
session of its own: Ctrl-C at the terminal reaches this interpreter alone, which then ends the job. If this interpreter
dies, the kernel closes the socket, and the launcher ends the job.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import json
import os
import selectors
import signal
import socket
import subprocess
import time
import weakref
from typing import Any, Callable, Deque, Dict, Optional, Protocol, Sequence, TextIO, Tuple

from farandole.runner.functions import messages
from farandole.runner.functions.output import OutputCopy

CLOSING_S = 20.0
"""A job that was asked to end is killed after this time, and FARANDOLE_TERMINATION_GRACE more if that is set. The
launcher itself kills workers 5 s, or that time, after SIGTERM."""
_READ_BYTES = 1 << 20
_MOST_BUFFERS = 64
"""Messages that leave by one system call."""


class Listener(Protocol):
    """The object that a launcher tells of its workers."""

    def on_event(self, event: Dict[str, Any]) -> None:
        """A worker has started or ended."""

    def on_message(self, slot: int, kind: int, body: bytes) -> None:
        """A worker has sent a message."""


class AgentStarter(Protocol):
    """Starts the agents of a job in a cluster that has its own way to start processes. Called in the thread of
    ``Launcher.step``, and must not wait."""

    def start(self, launcher: str) -> None:
        """Starts ``farandole agent --launcher LAUNCHER`` in each place of the cluster, with the job's secret."""

    def connected(self, host: str) -> None:
        """An agent is connected under this name."""


class ChildProcess(Protocol):
    """A child process that ends when its parent closes a socket."""

    def abandon(self) -> None:
        """Closes the copies of a forked child of the parent."""


_running: weakref.WeakSet[ChildProcess] = weakref.WeakSet()


def close_in_forked_children(process: ChildProcess) -> None:
    """Calls ``abandon()`` in each child that this interpreter forks."""
    _running.add(process)


def _forget_in_child() -> None:
    """A forked child closes its copies, because the launcher must see the end of the parent's."""
    for process in list(_running):
        process.abandon()


os.register_at_fork(after_in_child=_forget_in_child)


class Launcher:
    """A running launcher. Not thread-safe, except for ``wake``."""

    def __init__(
        self,
        command: Callable[[int], Sequence[str]],
        environment: Dict[str, str],
        listener: Listener,
        dispatch: Optional[Callable[[Callable[[], None]], None]] = None,
        agents: Optional[AgentStarter] = None,
        streams: Tuple[Optional[TextIO], Optional[TextIO]] = (None, None),
        wording: Optional[Callable[[str], str]] = None,
    ) -> None:
        """Starts the launcher.

        :param command: the command line, given the number of the inherited descriptor
        :param dispatch: runs functions that write output; by default at once, within ``step``
        :param agents: starts the agents of a job whose command line has ``--agents``
        :param streams: get the output in place of ``sys.stdout`` and ``sys.stderr``
        :param wording: changes the lines that the launcher itself prints
        """
        self._listener = listener
        self._agents = agents
        self._frames = messages.RecordReader(messages.MOST_FRAME_BYTES)
        self._readers: Dict[int, messages.RecordReader] = {}
        self._outgoing: Deque[memoryview] = collections.deque()
        self._watched = selectors.EVENT_READ
        self.stdout = OutputCopy("stdout", dispatch, streams[0], wording)
        self.stderr = OutputCopy("stderr", dispatch, streams[1], wording)
        self.has_timed_out = False
        """Whether the job fails because hosts, or enough slots, were not there in time."""
        self._extra_grace_s = 0.0
        with contextlib.suppress(KeyError, ValueError):  # the launcher refuses a malformed value
            self._extra_grace_s = float(environment["FARANDOLE_TERMINATION_GRACE"])
        self._owner = os.getpid()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._channel, theirs = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._process_descriptor = -1
        try:
            with theirs:
                self._process = subprocess.Popen(
                    command(theirs.fileno()),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=environment,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            self._listen()
        except BaseException:
            self.close()
            raise
        close_in_forked_children(self)

    def _listen(self) -> None:
        assert self._process is not None and self._process.stdout is not None and self._process.stderr is not None
        for each in (self._channel, self._wake_reader, self._wake_writer):
            each.setblocking(False)
        self._selector.register(self._channel, selectors.EVENT_READ, self._receive)
        self._selector.register(self._wake_reader, selectors.EVENT_READ, self._woken)
        for pipe, copy in ((self._process.stdout, self.stdout), (self._process.stderr, self.stderr)):
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, copy)
        # The launcher may end while a process that it has left behind still holds a pipe.
        self._process_descriptor = os.pidfd_open(self._process.pid)
        self._selector.register(self._process_descriptor, selectors.EVENT_READ, self._ended)

    @property
    def is_running(self) -> bool:
        """Whether the launcher has not ended, as far as ``step`` knows."""
        return self._process is not None and self._process.returncode is None

    @property
    def process_id(self) -> int:
        """The process id of the launcher; the name of its job ends with it."""
        assert self._process is not None
        return self._process.pid

    @property
    def exit_code(self) -> int:
        """The exit code of the launcher that has ended; 128 + signal if a signal has ended it."""
        assert self._process is not None
        code = self._process.wait()
        return code if code >= 0 else 128 - code

    def send(self, slot: int, content: bytes) -> None:
        """Sends messages to the worker in a slot; they leave in a later step."""
        self._outgoing.append(memoryview(messages.frame(slot, content)))

    def wake(self) -> None:
        """Ends a wait in ``step``; for other threads."""
        try:
            self._wake_writer.send(b"w")
        except OSError:
            pass  # it is awake already, or closed

    def step(self, timeout_s: Optional[float] = None) -> None:
        """Waits until something happens, and handles it. After the launcher has ended, its output has been copied."""
        self._transmit()
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outgoing else 0)
        if events != self._watched and self._channel in self._selector.get_map():
            self._selector.modify(self._channel, events, self._receive)
            self._watched = events
        for key, mask in self._selector.select(timeout_s):
            if isinstance(key.data, OutputCopy):
                self._copy(key.fd, key.data)
                continue
            if mask & selectors.EVENT_READ:
                key.data()

    def _copy(self, descriptor: int, copy: OutputCopy) -> bool:
        """Copies output that has arrived. Returns whether there may be more."""
        try:
            chunk = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        copy.add(chunk, is_last=not chunk)
        if not chunk:
            self._selector.unregister(descriptor)
        return bool(chunk)

    def _transmit(self) -> None:
        try:
            while self._outgoing:
                sent = self._channel.sendmsg(itertools.islice(self._outgoing, _MOST_BUFFERS))
                while self._outgoing and sent >= len(self._outgoing[0]):
                    sent -= len(self._outgoing.popleft())
                if sent > 0:
                    self._outgoing[0] = self._outgoing[0][sent:]
        except BlockingIOError:
            pass
        except (BrokenPipeError, ConnectionResetError):
            self._outgoing.clear()  # the launcher has ended: its exit code and its output give the reason

    def _receive(self) -> bool:
        """Handles frames that have arrived. Returns whether there may be more."""
        try:
            chunk = self._channel.recv(_READ_BYTES)
        except BlockingIOError:
            return False
        except ConnectionResetError:
            chunk = b""
        if not chunk:
            self._selector.unregister(self._channel)
        for slot, content in self._frames.feed(chunk):
            if slot == messages.EVENT_SLOT:
                event = json.loads(content)
                if event["event"] == "timed out":
                    self.has_timed_out = True
                    continue
                if event["event"] in ("waits for agents", "agent connected"):
                    self._tell_agents(event)
                    continue
                if event["event"] == "started":  # a new process: the rest of its predecessor's message never comes
                    self._readers.pop(event["slot"], None)
                self._listener.on_event(event)
                continue
            reader = self._readers.setdefault(slot, messages.RecordReader(messages.MOST_FRAME_BYTES))
            for kind, body in reader.feed(content):
                self._listener.on_message(slot, kind, body)
        return bool(chunk)

    def _tell_agents(self, event: Dict[str, Any]) -> None:
        is_connected = event["event"] == "agent connected"
        if self._agents is None:  # the user starts them
            if not is_connected:
                self.stderr.add(f"{event['text']}\n".encode())
        elif is_connected:
            self._agents.connected(event["host"])
        else:
            self._agents.start(event["launcher"])

    def _woken(self) -> None:
        try:
            self._wake_reader.recv(4096)
        except BlockingIOError:
            pass

    def _ended(self) -> None:
        """The launcher has ended: reads the rest of its frames and output, then its exit code."""
        assert self._process is not None
        while self._channel in self._selector.get_map() and self._receive():
            pass
        for key in list(self._selector.get_map().values()):
            while isinstance(key.data, OutputCopy) and self._copy(key.fd, key.data):
                pass
        self._process.wait()

    def terminate(self) -> None:
        """Asks the launcher to end the job; its workers are served until ``step`` finds that it has ended."""
        with contextlib.suppress(ProcessLookupError):  # it has ended
            signal.pidfd_send_signal(self._process_descriptor, signal.SIGTERM)

    def close(self) -> None:
        """Ends the job if it still runs, and frees everything. An interrupt (Ctrl-C) kills the job at once."""
        _running.discard(self)
        try:
            if self.is_running:
                self._end()
        finally:
            self._free()

    def _end(self) -> None:
        assert self._process is not None
        try:
            if self._process_descriptor < 0:  # it has hardly started
                return
            self._outgoing.clear()
            self._channel.shutdown(socket.SHUT_WR)
            self._process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + CLOSING_S + self._extra_grace_s
            while self.is_running and time.monotonic() < deadline:
                self.step(max(0.0, deadline - time.monotonic()))
        except OSError:
            pass  # the socket is broken: the launcher is about to end
        finally:
            if self._process.returncode is None:
                self._process.kill()  # the workers' watchdogs end them
                self._process.wait()

    def abandon(self) -> None:
        """Closes this process's copies of the descriptors and leaves the job alone; for a forked child."""
        if self._process is not None:
            self._process.returncode = 0  # it is no child of this process
        _running.discard(self)
        self._free()

    def _free(self) -> None:
        self._selector.close()
        pipes = (self._process.stdout, self._process.stderr) if self._process is not None else ()
        for each in (self._channel, self._wake_reader, self._wake_writer, *pipes):
            if each is not None:
                each.close()
        if self._process_descriptor >= 0:
            os.close(self._process_descriptor)
            self._process_descriptor = -1
