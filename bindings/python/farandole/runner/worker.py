"""A worker of ``farandole.run()``: takes calls from the process that runs the job, and sends back their results.

Started by the launcher as ``python -m farandole.runner.worker``.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import sys
import threading
import traceback
from types import TracebackType
from typing import Any, Dict, List, Optional, Tuple

from farandole.runner.functions import messages, pickling

_MOST_TEXT = 256 * 1024
"""Characters of an error or a traceback that are sent; of a longer one, the last."""


class CannotLoad(RuntimeError):
    """The worker cannot read its call."""


class Connection:
    """The stream to the process that runs the job."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._socket = socket.socket(fileno=descriptor)
        self._reader = messages.RecordReader(messages.MOST_FRAME_BYTES)
        self._received: List[Tuple[int, bytes]] = []
        self._sending = threading.Lock()
        # A forked child must neither keep the stream open nor write to it.
        os.register_at_fork(after_in_child=self._socket.close)

    def send(self, content: bytes) -> None:
        """Sends a message."""
        with self._sending:
            self._socket.sendall(content)

    def send_piece(self, piece: bytes) -> None:
        """Sends a part of a result."""
        self.send(messages.message(messages.PIECE, piece))

    def receive(self) -> Optional[Tuple[int, bytes]]:
        """The next message; None when the stream has ended."""
        while not self._received:
            chunk = self._socket.recv(messages.MOST_FRAME_BYTES)
            if not chunk:
                return None
            self._received = list(self._reader.feed(chunk))
            self._received.reverse()
        return self._received.pop()


def place() -> Dict[str, Any]:
    """This worker's place in the job; an elastic job may have changed it."""
    rank, local_rank = (os.environ.get(name, "") for name in ("HOROVOD_RANK", "HOROVOD_LOCAL_RANK"))
    return {
        "rank": int(rank) if rank.isdecimal() else None,
        "local_rank": int(local_rank) if local_rank.isdecimal() else None,
        "host": os.environ.get("HOROVOD_HOSTNAME") or socket.gethostname(),
        "process": os.getpid(),
    }


def serve(connection: Connection) -> None:
    """Runs calls until the last one has returned, or the process that runs the job has ended."""
    is_last = False
    while not is_last:
        connection.send(messages.json_message(messages.READY, place()))
        received = connection.receive()
        if received is None or received[0] == messages.LEAVE:
            return
        kind, body = received
        if kind != messages.CALL:
            raise messages.ProtocolError(f"a message of kind {kind} arrived where a call was expected")
        call = json.loads(body)
        is_last = call["last"]
        run_call(connection, call)


def run_call(connection: Connection, call: Dict[str, Any]) -> None:
    """Runs one call and sends its result.

    An exception of the function is sent and raised again, so that this process ends as a script does that raises it:
    the other workers learn the reason.
    """
    try:
        function, arguments, named = load_call(connection, call)
        result = function(*arguments, **named)
        # Output of the function shall not come after its result.
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        stream = messages.writer(connection.send_piece)
        pickling.dump(result, stream, "the result")
        stream.flush()
    except BaseException as problem:
        problem.__traceback__ = without_own_frames(problem.__traceback__)
        connection.send(messages.json_message(messages.RAISED, {**place(), **report_of(problem)}))
        raise problem
    connection.send(messages.json_message(messages.RETURNED, place()))


def load_call(connection: Connection, call: Dict[str, Any]) -> Tuple[Any, Any, Any]:
    """The function and its arguments; ``CannotLoad`` if this worker cannot read them."""
    version = list(sys.version_info[:2])
    if call["python"] != version:
        raise CannotLoad(
            f"the function comes from Python {_dotted(call['python'])}, and this worker runs Python {_dotted(version)} "
            f"({sys.executable}): give run(executable=...) an interpreter of the same version"
        )
    extend_path(call["path"])
    remaining = call["pieces"]

    def take() -> Optional[bytes]:
        nonlocal remaining
        if remaining == 0:
            return None
        received = connection.receive()
        if received is None:
            raise CannotLoad("the process that runs the job ended while it sent the function")
        remaining -= 1
        connection.send(messages.message(messages.MORE))
        return received[1]

    try:
        function, arguments, named = pickling.load(messages.reader(take))
    except ModuleNotFoundError as problem:
        raise CannotLoad(
            f"the function needs the module {problem.name}, which is missing here: install it on this host, or put it "
            f"on a file system that all hosts share; sys.path is {sys.path}"
        ) from problem
    return function, arguments, named


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


def main() -> None:
    """Serves calls on the descriptor that the launcher has left open."""
    text = os.environ.pop(messages.VARIABLE, "")
    if not text.isdecimal():
        sys.exit(f"{messages.VARIABLE} is '{text}' and names no descriptor: this program is started by farandole.run()")
    serve(Connection(int(text)))


if __name__ == "__main__":
    # The module's own name, so that objects that are pickled here find it.
    importlib.import_module("farandole.runner.worker").main()
