"""Copies the launcher's output to ``sys.stdout`` and ``sys.stderr``, also where these have been replaced."""

from __future__ import annotations

import codecs
import collections
import re
import sys
from typing import Callable, Deque, List, Optional, TextIO

OF_A_WORKER = re.compile(r"(\w{3} \w{3} .{16})?\[\w+\]<std(out|err)>:")
"""How a line begins that a worker has printed."""
_BYTES_OF_A_WORKER = re.compile(OF_A_WORKER.pattern.encode())
_MOST_LINES = 60
_MOST_CHARACTERS = 2000


class OutputCopy:
    """Copies one stream; ``name`` is ``stdout`` or ``stderr``. The stream is looked up at each write, so that output
    goes to the notebook's cell, or to the test, that has replaced it."""

    def __init__(
        self,
        name: str,
        dispatch: Optional[Callable[[Callable[[], None]], None]] = None,
        stream: Optional[TextIO] = None,
        wording: Optional[Callable[[str], str]] = None,
    ) -> None:
        """
        :param dispatch: runs the function that writes, perhaps in another thread; by default at once
        :param stream: gets the output in place of ``sys.stdout`` or ``sys.stderr``
        :param wording: changes the lines that the launcher itself prints
        """
        self._wording = LineWording(wording) if wording is not None else None
        self._name = name
        self._stream = stream
        self._dispatch = dispatch or (lambda write: write())
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._is_closed = False
        self._line = ""
        self._launcher_lines: Deque[str] = collections.deque(maxlen=_MOST_LINES)

    def add(self, chunk: bytes, is_last: bool = False) -> None:
        """Copies bytes of the stream."""
        if self._wording is not None:
            chunk = self._wording.changed(chunk, is_last)
        text = self._decoder.decode(chunk, is_last)
        self._remember(text)
        if chunk or text:
            self._dispatch(lambda: self._write(chunk, text))

    def _write(self, chunk: bytes, text: str) -> None:
        if self._is_closed:
            return
        stream = self._stream or getattr(sys, self._name)
        if stream is None:
            return
        try:
            original = getattr(sys, f"__{self._name}__")
            if stream is original and hasattr(stream, "buffer"):
                stream.flush()
                stream.buffer.write(chunk)  # as it is, even if it is no text
            else:
                stream.write(text)
            stream.flush()
        except (OSError, ValueError) as problem:
            self._is_closed = True
            self._warn(problem)

    def launcher_lines(self) -> List[str]:
        """The last lines that the launcher itself has printed, and no worker."""
        return [*self._launcher_lines, *([self._line] if self._line else [])]

    def _warn(self, problem: Exception) -> None:
        if self._name == "stderr" and self._stream is None:
            return
        try:
            print(
                f"farandole: the rest of the job's output is lost, because {self._stream or 'sys.stdout'} cannot be "
                f"written: {problem}",
                file=sys.stderr,
                flush=True,
            )
        except (OSError, ValueError):
            pass  # there is no place left where this could be said

    def _remember(self, text: str) -> None:
        *lines, rest = (self._line + text).split("\n")
        self._line = rest[-_MOST_CHARACTERS:]
        for line in lines:
            if line and not OF_A_WORKER.match(line):
                self._launcher_lines.append(line[-_MOST_CHARACTERS:])


class LineWording:
    """Changes the launcher's own lines. Lines of workers pass as they arrive, also in parts; the launcher's wait until
    they are complete."""

    def __init__(self, wording: Callable[[str], str]) -> None:
        self._wording = wording
        self._waiting = b""
        """The beginning of a line of the launcher, or of one that may be a worker's."""
        self._is_in_workers_line = False

    def changed(self, chunk: bytes, is_last: bool) -> bytes:
        """The bytes that can be written after this chunk."""
        *lines, rest = (self._waiting + chunk).split(b"\n")
        passed = [self._line(line) + b"\n" for line in lines]
        if not self._is_workers(rest) and not is_last:
            self._waiting = rest
            return b"".join(passed)
        self._waiting = b""
        passed.append(self._line(rest))
        self._is_in_workers_line = bool(rest)
        return b"".join(passed)

    def _line(self, line: bytes) -> bytes:
        is_workers = self._is_workers(line)
        self._is_in_workers_line = False
        if is_workers:
            return line
        return self._wording(line.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def _is_workers(self, line: bytes) -> bool:
        return self._is_in_workers_line or _BYTES_OF_A_WORKER.match(line) is not None
