"""Tags of pickled objects, for data paths that do not authenticate their data.

Unpickling runs code that the bytes choose. Where the data path cannot tell a member's bytes from a stranger's (Gloo,
MPI, UCX, a library of the user's), each object therefore carries a header: the sender's global rank, its number of the
object, and an HMAC-SHA256 under a key that only members can derive (``actors/member/object_key.hpp``), over generation,
process set, sender, number, name and bytes. A receiver checks the tag before it unpickles, and accepts each number of a
sender at most once.
"""

from __future__ import annotations

import hmac
import struct
import threading
from typing import Any, Dict, Optional, Tuple

from farandole.common import job
from farandole.common.exceptions import make_error

_HEADER = struct.Struct("<iQ32s")
"""Sender, number and tag."""

_CONTEXT = struct.Struct("<QIiQI")
"""Generation, process set, sender, number, bytes of the name."""


class ReplayWindow:
    """Which numbers of one sender have been accepted: a number is accepted once, and not when it is 64 or more below
    the highest (the window of RFC 4303, section 3.4.3). Objects of several threads may overtake each other by so many.
    """

    SIZE = 64

    def __init__(self) -> None:
        self._highest = 0
        self._seen = 0  # bit i: the number `_highest - i` was accepted

    def accept(self, number: int) -> bool:
        """Whether the number is new; from then on it is not."""
        ahead = number - self._highest
        if ahead > 0:
            kept = self._seen << ahead if ahead < self.SIZE else 0
            self._seen = (kept | 1) & ((1 << self.SIZE) - 1)
            self._highest = number
            return True
        if -ahead >= self.SIZE or self._seen >> -ahead & 1:
            return False
        self._seen |= 1 << -ahead
        return True


class ObjectTags:
    """Seals and opens the objects of one process in one generation. Thread-safe."""

    def __init__(self, key: bytes, generation: int, rank: int) -> None:
        self._key = key
        self._generation = generation
        self._rank = rank
        self._guard = threading.Lock()
        self._sent: Dict[int, int] = {}  # by process set
        self._received: Dict[Tuple[int, int], ReplayWindow] = {}  # by process set and sender

    def header_bytes(self) -> int:
        """How many bytes a sender leaves free before the object."""
        return _HEADER.size if self._key else 0

    def seal(self, content: memoryview, name: str, process_set: int) -> None:
        """Fills in the header, in the first bytes of the content."""
        if not self._key:
            return
        with self._guard:
            number = self._sent[process_set] = self._sent.get(process_set, 0) + 1
        tag = self._tag(content[_HEADER.size :], name, process_set, self._rank, number)
        _HEADER.pack_into(content, 0, self._rank, number, tag)

    def open(self, content: memoryview, name: str, process_set: int, expected: Optional[int] = None) -> memoryview:
        """The object's bytes.

        :param expected: the sender's global rank; None where any member may have sent it
        :raises HorovodInternalError: they did not come from this sender as they are, or came before
        """
        if not self._key:
            return content
        if len(content) < _HEADER.size:
            raise self._forged(name, expected, f"{len(content)} bytes came, fewer than its header has")
        sender, number, tag = _HEADER.unpack_from(content)
        if expected not in (None, sender):
            raise self._forged(name, expected, f"its header names rank {sender} as the sender")
        body = content[_HEADER.size :]
        if not hmac.compare_digest(tag, self._tag(body, name, process_set, sender, number)):
            raise self._forged(name, sender, f"its {len(body)} bytes do not match its tag")
        with self._guard:
            is_new = self._received.setdefault((process_set, sender), ReplayWindow()).accept(number)
        if not is_new:
            raise self._forged(name, sender, f"object {number} of that rank has been received before")
        return body

    def _tag(self, body: memoryview, name: str, process_set: int, sender: int, number: int) -> bytes:
        encoded = name.encode("utf-8", "surrogatepass")
        context = _CONTEXT.pack(self._generation, process_set, sender, number, len(encoded))
        computed = hmac.new(self._key, context + encoded, "sha256")
        computed.update(body)
        return computed.digest()

    def _forged(self, name: str, sender: Optional[int], problem: str) -> Exception:
        claimed = "an unknown rank" if sender is None else f"rank {sender}"
        return make_error(
            "aborted",
            f"{name}: the object from {claimed} was not accepted by rank {self._rank}: {problem}. It was changed, "
            "forged or repeated on its way by a process that does not belong to the job; nothing of it was unpickled. "
            "Unset FARANDOLE_TRUSTED_NETWORK, FARANDOLE_CPU_PATH and HOROVOD_CPU_OPERATIONS, and Farandole's own "
            "paths, which are authenticated, move the tensors",
        )


_current: Optional[Tuple[Any, ObjectTags]] = None
_current_guard = threading.Lock()


def of_this_job() -> ObjectTags:
    """Those of the generation that this process is in."""
    global _current
    runtime = job.runtime
    with _current_guard:
        if _current is None or _current[0] is not runtime:
            _current = (runtime, ObjectTags(runtime.object_key, runtime.generation, job.where().rank))
        return _current[1]
