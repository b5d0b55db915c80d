"""Runs a command, forwards its output with a prefix, and ends all of its processes on request."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional, Sequence, Union

GRACEFUL_TERMINATION_TIME_S = 5
"""Seconds between SIGTERM and SIGKILL."""
EVENT_CHECK_S = 0.1
"""An event of ``threading`` cannot be waited for together with output, so it is looked at this often."""
_READ_BYTES = 1 << 16


def execute(
    command: Union[str, Sequence[str]],
    env: Optional[Dict[str, str]] = None,
    stdout: Any = None,
    stderr: Any = None,
    index: Optional[int] = None,
    events: Optional[Sequence[Any]] = None,
    prefix_output_with_timestamp: bool = False,
) -> int:
    """Runs a command until it ends, and returns its exit code, or 128 + the number of the signal that ended it.

    :param command: words, or a text for the shell
    :param stdout: a stream for its output; by default ``sys.stdout``; likewise ``stderr``
    :param index: lines of output begin with "[index]<stdout>:"; None: without a prefix
    :param events: events of ``threading``; when one of them is set, all processes of the command are ended
    """
    process = subprocess.Popen(
        command,
        shell=isinstance(command, str),
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        with selectors.DefaultSelector() as selector, process.stdout, process.stderr:
            for pipe, target, name in ((process.stdout, stdout, "stdout"), (process.stderr, stderr, "stderr")):
                stream = target if target is not None else getattr(sys, name)
                lines = _PrefixedLines(stream, name, index, prefix_output_with_timestamp)
                selector.register(pipe, selectors.EVENT_READ, lines)
            _forward(process, selector, list(events or ()))
    finally:
        _signal_group(process, signal.SIGKILL)  # a process that the command has left behind
        code = process.wait()
    return code if code >= 0 else 128 - code


def _forward(process: subprocess.Popen[bytes], selector: selectors.BaseSelector, events: List[Any]) -> None:
    """Forwards output until the command has ended. SIGKILL ends processes that hold a pipe beyond that."""
    kill_at: Optional[float] = None
    is_stopping = False
    while selector.get_map():
        for key, _ in selector.select(EVENT_CHECK_S):
            chunk = os.read(key.fd, _READ_BYTES)
            key.data.add(chunk)
            if not chunk:
                selector.unregister(key.fileobj)
        has_ended = process.poll() is not None
        if not is_stopping and (has_ended or any(each.is_set() for each in events)):
            is_stopping = True
            _signal_group(process, signal.SIGTERM)
            kill_at = time.monotonic() + GRACEFUL_TERMINATION_TIME_S
        if kill_at is not None and time.monotonic() >= kill_at:
            _signal_group(process, signal.SIGKILL)
            if has_ended:
                for key in selector.get_map().values():
                    key.data.add(b"")
                return  # a process that has left the group, such as a daemon, may hold a pipe for ever
    if not is_stopping:
        _wait(process, events)


def _wait(process: subprocess.Popen[bytes], events: List[Any]) -> None:
    """Waits for a command that has closed its output."""
    while True:
        try:
            process.wait(EVENT_CHECK_S)
            return
        except subprocess.TimeoutExpired:
            if any(each.is_set() for each in events):
                break
    _signal_group(process, signal.SIGTERM)
    try:
        process.wait(GRACEFUL_TERMINATION_TIME_S)
    except subprocess.TimeoutExpired:
        pass  # the caller kills it


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # all of its processes have ended


class _PrefixedLines:
    """Writes output with a prefix before each line."""

    def __init__(self, stream: Any, name: str, index: Optional[int], has_timestamp: bool) -> None:
        self._stream, self._name, self._index, self._has_timestamp = stream, name, index, has_timestamp
        self._unread = b""

    def add(self, chunk: bytes) -> None:
        """Writes the lines that bytes of the output complete; no bytes are the end."""
        self._unread += chunk
        end = len(self._unread) if not chunk else max(self._unread.rfind(b"\n"), self._unread.rfind(b"\r")) + 1
        text, self._unread = self._unread[:end].decode(errors="replace"), self._unread[end:]
        if not text:
            return
        if self._index is not None:
            text = "".join(self._prefix() + line for line in text.splitlines(keepends=True))
        self._stream.write(text)
        self._stream.flush()

    def _prefix(self) -> str:
        return f"{time.asctime() if self._has_timestamp else ''}[{self._index}]<{self._name}>:"
