"""A worker of ``farandole.run()``: takes calls from the process that runs the job, and sends back their results.

Started by the launcher as ``python -m farandole.runner.worker``.
"""

from __future__ import annotations

import _thread
import collections
import importlib
import json
import os
import select
import signal
import sys
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, List, Optional, Tuple

from farandole.common.switches import is_on
from farandole.runner.functions import messages, pickling

if TYPE_CHECKING:
    from types import TracebackType

_SEND_BYTES = 64 * 1024
_MOST_TEXT = 256 * 1024
"""Characters of an error or a traceback that are sent; of a longer one, the last."""


SESSION, INITIALIZE = "--session", "--initialize"
"""Options of this program."""


class CannotLoad(RuntimeError):
    """The worker cannot read its call."""


class Connection:
    """The stream to the process that runs the job."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._descriptor = descriptor
        self._reader = messages.RecordReader(messages.MOST_FRAME_BYTES)
        self._received: Deque[Tuple[int, bytes]] = collections.deque()
        self._unsent = bytearray()
        self.on_interrupt: Callable[[int], None] = lambda _: None
        """Called with the number of a call that shall be interrupted, in the thread that reads."""
        # A forked child must neither keep the stream open nor write to it.
        os.register_at_fork(after_in_child=lambda: os.close(descriptor))

    def send(self, content: bytes) -> None:
        """Sends a message, at the latest at the next ``flush()`` or ``receive()``: one system call for small ones."""
        self._unsent += content
        if len(self._unsent) >= _SEND_BYTES:
            self.flush()

    def flush(self) -> None:
        """Sends all messages."""
        unsent, self._unsent = self._unsent, bytearray()
        with memoryview(unsent) as view:
            sent = 0
            while sent < len(view):
                sent += os.write(self._descriptor, view[sent:])

    def send_piece(self, piece: bytes) -> None:
        """Sends a part of a result."""
        self.send(messages.message(messages.PIECE, piece))

    def receive(self) -> Optional[Tuple[int, bytes]]:
        """The next message; None when the stream has ended."""
        self.flush()
        while not self._received:
            if not self._read():
                return None
        return self._received.popleft()

    def receive_interrupts(self) -> bool:
        """Reads messages that have arrived, without waiting. Returns False when the stream has ended."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        try:
            return not poll.poll(0) or self._read()
        except OSError:  # as at its end
            return False

    def _read(self) -> bool:
        chunk = os.read(self._descriptor, messages.MOST_FRAME_BYTES)
        for kind, body in self._reader.feed(chunk):
            if kind == messages.INTERRUPT:
                self.on_interrupt(json.loads(body)["call"])
            else:
                self._received.append((kind, body))
        return bool(chunk)

    def fileno(self) -> int:
        """The descriptor of the stream."""
        return self._descriptor


PLACE_VARIABLE = "FARANDOLE_TASK_PLACE"
"""The place in the cluster that has started this worker, in words for messages."""


def place() -> Dict[str, Any]:
    """This worker's place in the job, or its last one; an elastic job may have changed it."""
    rank, local_rank = (os.environ.get(name, "") for name in ("HOROVOD_RANK", "HOROVOD_LOCAL_RANK"))
    job = sys.modules.get("farandole.common.job")
    topology = job.topology if job is not None else None
    if job is not None and is_on("HOROVOD_ELASTIC"):  # the variables hold the slot of the worker
        topology = job.last_topology
    if topology is not None:
        rank, local_rank = str(topology.rank), str(topology.local_rank)
    return {
        "rank": int(rank) if rank.isdecimal() else None,
        "local_rank": int(local_rank) if local_rank.isdecimal() else None,
        "host": os.environ.get("HOROVOD_HOSTNAME") or os.uname().nodename,
        "place": os.environ.get(PLACE_VARIABLE, ""),
        "process": os.getpid(),
    }


class Interrupts:
    """Raises ``KeyboardInterrupt`` in the function of a call that shall be interrupted, and nowhere else.

    The main thread reads the connection between functions, so that a call need not pass from one thread to another.
    While a function runs, a thread reads it.
    """

    def __init__(self, connection: Connection) -> None:
        import threading

        self._connection = connection
        self._requested = -1
        self._running = -1
        self._main_thread = _thread.get_ident()
        self._reading = threading.Lock()
        """Guards the connection's side that is read, and the field below."""
        self._is_watching = False
        self._epoll = select.epoll()
        self._epoll.register(connection, select.EPOLLONESHOT)
        connection.on_interrupt = self._request
        signal.signal(signal.SIGINT, self._on_signal)
        threading.Thread(target=self._watch, name="farandole calls", daemon=True).start()

    def _watch(self) -> None:
        while True:
            self._epoll.poll()
            with self._reading:
                if self._is_watching and self._connection.receive_interrupts():
                    self._epoll.modify(self._connection, select.EPOLLIN | select.EPOLLONESHOT)

    def _request(self, number: int) -> None:
        """Interrupts the call of this number, if it runs; called by the thread that reads."""
        self._requested = number
        # The main thread may be in a system call, which only a signal to this thread ends.
        signal.pthread_kill(self._main_thread, signal.SIGINT)

    def _on_signal(self, *_: Any) -> None:
        # Runs in the main thread, so that the call cannot end meanwhile.
        if self._running >= 0 and self._requested == self._running:
            self._running = -1
            raise KeyboardInterrupt

    def begin(self, number: int) -> None:
        """A function begins to run. From now on, the main thread must not read."""
        with self._reading:
            self._is_watching = True
            self._epoll.modify(self._connection, select.EPOLLIN | select.EPOLLONESHOT)
        self._running = number
        if self._requested == number:
            self._on_signal()

    def end(self) -> None:
        """It has ended."""
        self._running = -1

    def rest(self) -> None:
        """The main thread reads again. Not a part of ``end()``, because an interrupt may end that early."""
        with self._reading:
            self._is_watching = False
            self._epoll.modify(self._connection, select.EPOLLONESHOT)


def serve(connection: Connection) -> None:
    """Runs one call. An exception of the function is sent and raised again, so that this process ends as a script does
    that raises it: the other workers learn the reason."""
    call = next_call(connection)
    if call is None:
        return
    problem = run_call(connection, call)
    connection.flush()
    if problem is not None:
        raise problem


def serve_session(connection: Connection, is_member: bool) -> None:
    """Runs calls until the session or its process has ended. Exceptions of functions are sent.

    :param is_member: whether ``hvd`` is initialised for the functions. After an exception, this worker leaves the job,
        so that operations of the others that wait for it fail, and the session has all workers join again.
    """
    interrupts = Interrupts(connection)
    while (call := next_call(connection)) is not None:
        problem = run_call(connection, call, interrupts)
        interrupts.rest()
        if problem is not None and is_member:
            connection.flush()
            leave_job()


def next_call(connection: Connection) -> Optional[Dict[str, Any]]:
    """Asks for a call; None when there are no more."""
    connection.send(messages.json_message(messages.READY, place()))
    received = connection.receive()
    if received is None or received[0] == messages.LEAVE:
        return None
    if received[0] != messages.CALL:
        raise messages.ProtocolError(f"a message of kind {received[0]} arrived where a call was expected")
    call: Dict[str, Any] = json.loads(received[1])
    return call


def run_call(
    connection: Connection, call: Dict[str, Any], interrupts: Optional[Interrupts] = None
) -> Optional[BaseException]:
    """Runs one call and sends its result, or its exception, which it returns."""
    try:
        function, arguments, named = load_call(connection, call)
        try:
            if interrupts is not None:
                interrupts.begin(call["call"])
            result = function(*arguments, **named)
        finally:
            if interrupts is not None:
                interrupts.end()
        # Output of the function shall not come after its result.
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        pieces = messages.writer(connection.send_piece)
        pickling.dump(result, pieces, "the result")
        pieces.flush()
    except BaseException as problem:
        problem.__traceback__ = without_own_frames(problem.__traceback__)
        report = {**place(), **report_of(problem)}
        if interrupts is not None and isinstance(problem, KeyboardInterrupt):
            report["consequence"] = True  # the session has interrupted this call
        connection.send(messages.json_message(messages.RAISED, report))
        return problem
    connection.send(messages.json_message(messages.RETURNED, place()))
    return None


def load_call(connection: Connection, call: Dict[str, Any]) -> Tuple[Any, Any, Any]:
    """The function and its arguments; ``CannotLoad`` if this worker cannot read them."""
    extend_path(call["path"])
    remaining = call["pieces"]

    def take() -> Optional[bytes]:
        nonlocal remaining
        if remaining == 0:
            return None
        received = connection.receive()
        if received is None:
            raise CannotLoad("the process that runs the job ended while it sent the function")
        if remaining > messages.WINDOW:  # others are to be sent
            connection.send(messages.message(messages.MORE))
        remaining -= 1
        return received[1]

    try:
        require_version(call["python"])
        function, arguments, named = pickling.load_pieces(take, call["pieces"])
    except ModuleNotFoundError as problem:
        raise CannotLoad(
            f"the function needs the module {problem.name}, which is missing here: install it on this host, or put it "
            f"on a file system that all hosts share; sys.path is {sys.path}"
        ) from problem
    finally:
        while take() is not None:  # the next message is not a piece
            pass
    return function, arguments, named


def require_version(wanted: List[int]) -> None:
    """``CannotLoad`` where a function of another version of Python cannot be read."""
    version = list(sys.version_info[:2])
    if wanted != version:
        raise CannotLoad(
            f"the function comes from Python {_dotted(wanted)}, and this worker runs Python {_dotted(version)} "
            f"({sys.executable}): give run(executable=...) an interpreter of the same version"
        )


def extend_path(entries: List[str]) -> None:
    """Puts the caller's own folders of modules in front of this interpreter's, in the same order."""
    sys.path[:] = [*entries, *(each for each in sys.path if each not in entries)]


def without_own_frames(trace: Optional[TracebackType]) -> Optional[TracebackType]:
    """The traceback from the function on."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__ and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def report_of(problem: BaseException) -> Dict[str, Any]:
    """An exception, for the process that runs the job."""
    import traceback

    from farandole.common import departure, exit_status

    try:
        text = str(problem)
    except Exception as other:  # the script's own class may be at fault
        text = f"(its text cannot be had: {type(other).__name__})"
    lines = "".join(traceback.format_exception(type(problem), problem, problem.__traceback__))
    return {
        "type": type(problem).__name__,
        "text": text[-_MOST_TEXT:],
        "traceback": "" if isinstance(problem, pickling.CannotPickle) else lines[-_MOST_TEXT:],
        "code": exit_status.status(problem) if isinstance(problem, SystemExit) else 1,
        "consequence": departure.behind(problem) is not None,
    }


def _dotted(version: List[int]) -> str:
    return ".".join(map(str, version))


def leave_job() -> None:
    """Leaves the job; operations of other workers that wait for this one fail."""
    from farandole.common.basics import leave

    leave()


def join_job_again() -> None:
    """Joins the job, so that functions find ``hvd`` initialised, for any framework. All workers do so together. Those
    that are members leave before that: members number their operations anew."""
    from farandole.common import membership
    from farandole.common.basics import HorovodBasics

    leave_job()
    membership.enter_loop()  # functions communicate wherever they like
    HorovodBasics(__file__).init()


def main() -> None:
    """Serves calls on the descriptor that the launcher has left open: one, or those of a session (``--session``)."""
    text = os.environ.pop(messages.VARIABLE, "")
    if not text.isdecimal():
        sys.exit(f"{messages.VARIABLE} is '{text}' and names no descriptor: this program is started by farandole.run()")
    connection = Connection(int(text))
    if SESSION not in sys.argv:
        serve(connection)
        return
    serve_session(connection, INITIALIZE in sys.argv)


if __name__ == "__main__":
    # The module's own name, so that objects that are pickled here find it.
    importlib.import_module("farandole.runner.worker").main()
