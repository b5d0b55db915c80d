"""Copies the launcher's output to ``sys.stdout`` and ``sys.stderr``, also where these have been replaced."""

from __future__ import annotations

import codecs
import collections
import re
import sys
from typing import Callable, Deque, List, Optional

OF_A_WORKER = re.compile(r"(\w{3} \w{3} .{16})?\[\w+\]<std(out|err)>:")
"""How a line begins that a worker has printed."""
_MOST_LINES = 60
_MOST_CHARACTERS = 2000


class OutputCopy:
    """Copies one stream; ``name`` is ``stdout`` or ``stderr``. The stream is looked up at each write, so that output
    goes to the notebook's cell, or to the test, that has replaced it."""

    def __init__(self, name: str, dispatch: Optional[Callable[[Callable[[], None]], None]] = None) -> None:
        """
        :param dispatch: runs the function that writes, perhaps in another thread; by default at once
        """
        self._name = name
        self._dispatch = dispatch or (lambda write: write())
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._is_closed = False
        self._line = ""
        self._launcher_lines: Deque[str] = collections.deque(maxlen=_MOST_LINES)

    def add(self, chunk: bytes, is_last: bool = False) -> None:
        """Copies bytes of the stream."""
        text = self._decoder.decode(chunk, is_last)
        self._remember(text)
        if chunk or text:
            self._dispatch(lambda: self._write(chunk, text))

    def _write(self, chunk: bytes, text: str) -> None:
        if self._is_closed:
            return
        stream = getattr(sys, self._name)
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
        if self._name == "stderr":
            return
        try:
            print(
                f"farandole: the rest of the job's output is lost, because sys.stdout cannot be written: {problem}",
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
