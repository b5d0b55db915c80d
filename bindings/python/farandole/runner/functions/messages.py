"""The messages between the process that calls ``run()`` and the workers.

The channel to the launcher carries *frames*: a slot, a length, and bytes for the worker or from the worker in that
slot. The bytes of one slot, put together, are a stream of *messages*: a kind, a length, and a body. Both are records
with the same header, so that ``RecordReader`` reads both.

A value, pickled, is a sequence of PIECE messages. A worker takes the pieces of its call at its own pace: READY grants
``WINDOW`` pieces, and each MORE grants one more, as long as there are unsent ones. So the launcher never holds more
than that for a worker, and a slow worker does not delay the others.
"""

from __future__ import annotations

import io
import json
import struct
from typing import Any, Callable, Dict, Iterator, Optional, Tuple, Union

HEADER = struct.Struct("<II")
"""Slot and length of a frame; kind and length of a message."""
MOST_FRAME_BYTES = 1 << 20
MOST_BODY_BYTES = MOST_FRAME_BYTES - HEADER.size
"""A message from the caller fits into one frame."""
EVENT_SLOT = 0xFFFFFFFF
"""The slot of frames that hold an event of the launcher as JSON."""
WORKERS = struct.Struct("<I")
"""The body of a frame of that slot to the launcher: the number of workers from now on; 0: they are about to end."""
WINDOW = 8
"""Pieces of a call that a worker has not taken yet, at most."""
VARIABLE = "FARANDOLE_CALL_DESCRIPTOR"
"""The environment variable with the number of the worker's descriptor."""

# From a worker.
READY = 1
"""The worker can take a call. JSON: rank, host, process."""
MORE = 2
"""The worker has taken a piece of its call and can take another one. No body."""
RETURNED = 3
"""The function has returned, and the pieces sent since READY are its result. JSON: rank."""
RAISED = 4
"""The function has not returned a result; pieces sent since READY are void. JSON: see ``worker.report_of``."""

# From the process in a slot whose worker the caller starts.
PLACE = 9
"""The caller shall start the worker. The pieces sent before are its environment as JSON. No body."""
STOP = 10
"""The caller shall end the worker. No body."""

# To a worker.
CALL = 5
"""A call follows in pieces. JSON: pieces, python, path, call (its number)."""
LEAVE = 6
"""There are no more calls. No body."""
INTERRUPT = 7
"""The call that the worker runs shall be interrupted, as by Ctrl-C. JSON: call."""
EXITED = 11
"""The worker that the caller has started has ended. JSON: code."""

# Both ways.
PIECE = 8
"""The next bytes of a pickled value."""


class ProtocolError(RuntimeError):
    """The other end sent bytes that are no message."""


class RecordReader:
    """Splits a stream of bytes into records."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._unread = bytearray()

    def feed(self, chunk: bytes) -> Iterator[Tuple[int, bytes]]:
        """Adds bytes of the stream, and yields the number and the body of each record that they complete."""
        if self._unread:
            self._unread += chunk
            content: Union[bytes, bytearray] = self._unread
        else:
            content = chunk  # most chunks begin with a record, and are not copied
        offset = 0
        try:
            while len(content) - offset >= HEADER.size:
                number, length = HEADER.unpack_from(content, offset)
                if length > self._most_bytes:
                    raise ProtocolError(
                        f"a record of {length} bytes arrived, and at most {self._most_bytes} are allowed: the launcher "
                        "or the worker is of another version; install the same version of Farandole on all hosts"
                    )
                begin = offset + HEADER.size
                if len(content) < begin + length:
                    break
                offset = begin + length
                with memoryview(content) as view:
                    body = bytes(view[begin:offset])
                yield number, body
        finally:
            if content is chunk:
                self._unread += chunk[offset:]
            else:
                del self._unread[:offset]


def frame(slot: int, content: bytes) -> bytes:
    """A frame for the launcher."""
    return HEADER.pack(slot, len(content)) + content


def message(kind: int, body: bytes = b"") -> bytes:
    """A message, ready to be sent."""
    return HEADER.pack(kind, len(body)) + body


def json_message(kind: int, fields: Dict[str, Any]) -> bytes:
    """A message whose body is JSON."""
    return message(kind, json.dumps(fields).encode())


class PieceWriter(io.RawIOBase):
    """A stream that passes written bytes on in pieces."""

    def __init__(self, put: Callable[[bytes], None]) -> None:
        super().__init__()
        self._put = put

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        with memoryview(data).cast("B") as view:
            piece = bytes(view[:MOST_BODY_BYTES])
        self._put(piece)
        return len(piece)


class PieceReader(io.RawIOBase):
    """A stream that reads pieces, and drops each when it has been read."""

    def __init__(self, take: Callable[[], Optional[bytes]]) -> None:
        super().__init__()
        self._take = take
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            piece = self._take()
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


def writer(put: Callable[[bytes], None]) -> io.BufferedWriter:
    """A stream whose content is passed on in pieces; flush it at the end."""
    return io.BufferedWriter(PieceWriter(put), MOST_BODY_BYTES)


def reader(take: Callable[[], Optional[bytes]]) -> io.BufferedReader:
    """A stream of the pieces that ``take`` returns; None ends it."""
    return io.BufferedReader(PieceReader(take), 1 << 16)
