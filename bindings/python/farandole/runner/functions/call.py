"""A function call on all workers of a job: the messages to each worker, its answers, and the result.

A plain class: messages and events go in, and messages for workers come out.
"""

from __future__ import annotations

import collections
import json
import re
import sys
from dataclasses import dataclass, field
from typing import Any, Deque, Dict, List, Mapping, Optional, Sequence, Tuple

from farandole.runner.functions import messages, pickling

SUMMARY = "Horovod detected that one or more processes exited with non-zero status"
"""How the launcher's lines on a failed job begin."""
_MOST_JOINED = 1 << 16
"""A call with one piece of at most so many bytes is one message to the launcher."""


@dataclass
class Failure:
    """A worker that did not return a result."""

    rank: Optional[int]
    host: str
    code: int
    text: str
    """The event, in one line."""
    name: str = ""
    """The worker's name in the launcher's summary."""
    traceback: str = ""
    consequence: bool = False
    """Whether the end of another worker made it fail."""
    place: str = ""
    """The place of a cluster in which it ran, as in "host a (Spark task 1)". The cluster's names of hosts are then not
    those of the user."""

    def where(self) -> str:
        """The worker in words."""
        place = self.place or f"host {self.host}"
        return f"rank {self.rank} on {place}" if self.rank is not None else f"a worker on {place}"


@dataclass
class _Worker:
    slot: int
    host: str
    rank: Optional[int] = None
    name: str = ""
    """As the launcher names it in its summary."""
    place: str = ""
    """See ``Failure``."""
    unsent: Optional[Deque[bytes]] = None
    """Pieces of the call; None: the worker has not asked for the call."""
    pieces: List[bytes] = field(default_factory=list)
    """Of its result, so far."""
    has_returned: bool = False
    failure: Optional[Failure] = None


class Call:
    """The state of one call."""

    def __init__(
        self,
        pieces: Sequence[bytes],
        folders: Sequence[str],
        is_elastic: bool = False,
        number: int = 0,
        ranks: Optional[Mapping[int, int]] = None,
    ) -> None:
        """
        :param pieces: function, arguments and keyword arguments, pickled
        :param folders: where workers look for modules first
        :param number: of the call in its session
        :param ranks: the ranks of the workers by slot; None: workers say their ranks
        """
        self._ranks = ranks
        self._number = number
        self._pieces = pieces
        self._is_elastic = is_elastic
        self._workers: Dict[int, _Worker] = {}
        self._results: Dict[int, Any] = {}
        self.failures: List[Failure] = []
        self._outgoing: List[Tuple[int, bytes]] = []
        self._opening, self._first_piece = self._opening_of(pieces, folders)

    def _opening_of(self, pieces: Sequence[bytes], folders: Sequence[str]) -> Tuple[bytes, int]:
        """The bytes with which the call begins at each worker, and the index of the piece that follows them. They hold
        the only piece of a small call, so that a worker is woken once."""
        fields = {
            "pieces": len(pieces),
            "python": list(sys.version_info[:2]),
            "path": list(folders),
            "call": self._number,
        }
        opening = messages.json_message(messages.CALL, fields)
        if len(pieces) == 1 and len(pieces[0]) <= _MOST_JOINED:
            return opening + messages.message(messages.PIECE, pieces[0]), 1
        return opening, 0

    def take_outgoing(self) -> List[Tuple[int, bytes]]:
        """The messages to be sent to workers, by slot."""
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    def on_event(self, event: Dict[str, Any]) -> None:
        """A worker has started or ended."""
        slot = event["slot"]
        if event["event"] == "started":
            self._workers[slot] = self._made(slot, str(event["host"]))
        elif event["event"] == "ended":
            self._on_end(self._worker(slot), str(event["manner"]))

    def on_message(self, slot: int, kind: int, body: bytes) -> None:
        """A worker has sent a message."""
        worker = self._worker(slot)
        if kind == messages.PIECE:
            worker.pieces.append(body)
        elif kind == messages.MORE:
            self._send_pieces(worker, 1)
        elif kind == messages.READY:
            self.begin(slot, json.loads(body))
        elif kind == messages.RETURNED:
            if self._ranks is None:  # in an elastic job, the place may have changed
                self._note_place(worker, json.loads(body))
            self._on_result(worker)
        elif kind == messages.RAISED:
            self._on_exception(worker, json.loads(body))
        else:
            raise messages.ProtocolError(f"a message of kind {kind} arrived from the worker in slot {slot}")

    def begin(self, slot: int, place: Dict[str, Any]) -> None:
        """A worker can take the call. ``place`` is the content of its READY."""
        worker = self._worker(slot)
        self._note_place(worker, place)
        worker.unsent = collections.deque(self._pieces[self._first_piece :])
        self._outgoing.append((slot, self._opening))
        self._send_pieces(worker, messages.WINDOW)

    @property
    def has_workers(self) -> bool:
        """Whether a worker was started."""
        return bool(self._workers)

    def has_settled(self, slot: int) -> bool:
        """Whether the worker in this slot has returned or failed."""
        worker = self._workers.get(slot)
        return worker is not None and (worker.has_returned or worker.failure is not None)

    def result_of(self, rank: int) -> Any:
        """The result of a rank that has returned."""
        return self._results[rank]

    def results(self, count: int) -> Optional[List[Any]]:
        """The results of the first ``count`` ranks, in their order; None if one is missing."""
        if any(rank not in self._results for rank in range(count)):
            return None
        return [self._results[rank] for rank in range(count)]

    def first_missing(self, count: int) -> int:
        """The first of ``count`` ranks that has no result."""
        return next(rank for rank in range(count) if rank not in self._results)

    def _worker(self, slot: int) -> _Worker:
        return self._workers.get(slot) or self._workers.setdefault(slot, self._made(slot, "localhost"))

    def _made(self, slot: int, host: str) -> _Worker:
        # In an elastic job, the rank is only known when the worker says it.
        return _Worker(slot, host) if self._is_elastic else _Worker(slot, host, slot, str(slot))

    def _note_place(self, worker: _Worker, place: Dict[str, Any]) -> None:
        worker.place = place.get("place", "")
        if not worker.place:
            worker.host = place["host"]
        if self._ranks is not None:
            worker.rank = self._ranks[worker.slot]
        elif place["rank"] is not None:
            worker.rank = place["rank"]
        worker.name = f"{worker.host}[{place['local_rank']}]" if self._is_elastic else str(worker.rank)

    def _send_pieces(self, worker: _Worker, count: int) -> None:
        for _ in range(min(count, len(worker.unsent or ()))):
            assert worker.unsent is not None
            self._outgoing.append((worker.slot, messages.message(messages.PIECE, worker.unsent.popleft())))

    def _on_result(self, worker: _Worker) -> None:
        worker.has_returned = True
        pieces = collections.deque(worker.pieces)
        worker.pieces = []
        try:
            value = pickling.load_pieces(lambda: pieces.popleft() if pieces else None, len(pieces))
        except Exception as problem:
            text = f"returned a result that cannot be read here: {type(problem).__name__}: {problem}"
            self._fail(worker, 0, text)
            return
        if worker.rank is not None:
            self._results[worker.rank] = value

    def _on_exception(self, worker: _Worker, report: Dict[str, Any]) -> None:
        self._note_place(worker, report)
        worker.pieces = []
        if self._is_elastic and report["type"] == "SystemExit" and report["code"] == 0:
            worker.has_returned = True  # it has lost its place in the job
            return
        separator = ": " if report["text"] else ""
        text = f"raised {report['type']}{separator}{report['text']}"
        self._fail(worker, report["code"], text, report["traceback"], report["consequence"])

    def _on_end(self, worker: _Worker, manner: str) -> None:
        code = exit_code_of(manner)
        if worker.failure is not None or (worker.has_returned and code == 0):
            return
        before = "" if worker.has_returned else " before its function returned"
        # The launcher ends the other workers after a failure.
        self._fail(worker, code, manner + before, consequence=bool(self.failures))

    def _fail(self, worker: _Worker, code: int, text: str, traceback: str = "", consequence: bool = False) -> None:
        worker.failure = Failure(worker.rank, worker.host, code, text, worker.name, traceback, consequence)
        worker.failure.place = worker.place
        self.failures.append(worker.failure)

    def cause(self, launcher_lines: Sequence[str]) -> Optional[Failure]:
        """The failure that caused the others: that of the worker that the launcher's summary names, else the first."""
        named = [each for each in self.failures if f"Process name: {each.name}" in launcher_lines]
        own = [each for each in self.failures if not each.consequence]
        return next(iter(named or own or self.failures), None)


def exit_code_of(manner: str) -> int:
    """The exit code in the words by which the launcher says how a worker has ended."""
    found = re.search(r"(code|signal) (\d+)", manner)
    if found is None:
        return 1
    return int(found.group(2)) + (128 if found.group(1) == "signal" else 0)


def failure_text(failure: Optional[Failure], launcher_lines: Sequence[str], exit_code: int) -> str:
    """The message of the exception for a job that has failed: the launcher's summary, and the worker's traceback."""
    begin = next((index for index, line in enumerate(launcher_lines) if line.startswith(SUMMARY)), None)
    summary = list(launcher_lines[begin:]) if begin is not None else []
    if failure is None:
        return "\n".join(summary or [f"the launcher ended with exit code {exit_code}", *launcher_lines])
    if not summary:
        summary = [
            f"{SUMMARY}. The one that caused it was:",
            f"Process name: {failure.name}",
            f"Exit code: {failure.code}",
        ]
    elif failure.traceback:  # it holds the last lines of the worker's output, too
        end = next((index for index, line in enumerate(summary) if line.startswith("Last lines of its")), None)
        summary = summary[:end]
    if failure.place:  # the launcher's cause names the place differently; the line that follows has it, too
        summary = [line for line in summary if not line.startswith("Cause: ")]
    described = f"{failure.where()} {failure.text}"
    return "\n".join([*summary, described[0].upper() + described[1:], failure.traceback]).rstrip()
