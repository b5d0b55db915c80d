"""The process in a slot of a job whose workers the caller starts itself (``gloo_run.launch_gloo``).

The launcher starts ``python -m farandole.runner.placed_worker`` in each slot. It asks the caller to start the worker,
passes SIGTERM on, and ends with the worker's exit code. So the launcher decides about the job as it always does.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any, NoReturn

from farandole.runner.functions import messages


def _write(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


def _exit_code_of(descriptor: int) -> int:
    """Waits for the end of the worker; 1 if the caller has gone."""
    reader = messages.RecordReader(messages.MOST_FRAME_BYTES)
    while chunk := os.read(descriptor, messages.MOST_FRAME_BYTES):
        for kind, body in reader.feed(chunk):
            if kind == messages.EXITED:
                return int(json.loads(body)["code"])
    return 1


def main() -> NoReturn:
    """Runs until the worker has ended."""
    text = os.environ.pop(messages.VARIABLE, "")
    if not text.isdecimal():
        sys.exit(f"{messages.VARIABLE} is '{text}' and names no descriptor: this program is started by launch_gloo()")
    descriptor = int(text)
    blocked = {signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, blocked)  # PLACE is sent whole, before STOP

    def stop(*_: Any) -> None:
        _write(descriptor, messages.message(messages.STOP))

    signal.signal(signal.SIGTERM, stop)
    with messages.writer(lambda piece: _write(descriptor, messages.message(messages.PIECE, piece))) as stream:
        stream.write(json.dumps(dict(os.environ)).encode())
    _write(descriptor, messages.message(messages.PLACE))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
    sys.exit(_exit_code_of(descriptor))


if __name__ == "__main__":
    main()
