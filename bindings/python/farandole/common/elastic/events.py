"""Events of a member of an elastic job, for tools that measure it. Each is a line of JSON, appended to a file.

``FARANDOLE_ELASTIC_EVENTS`` names the file, which all workers share. ``ms`` is a clock that all processes of a machine
share; ``counters`` are the whole numbers that the state holds, such as a step.

``generation``  this member is in a generation (``rank``, ``size``)
``training``    the training function is called
``commit``      a commit is about to be agreed on (``counters``)
``lost``        a collective has failed, since a member was lost (``counters``)
``restored``    the state is that of the last commit again (``counters``)
``changed``     members are to change; the commit has said so
``reset``       the way into the next generation begins
``left``        the job goes on without this process
``ended``       the training function has returned
"""

from __future__ import annotations

import json
import os
import time
from typing import Dict

from farandole.common import job

_descriptor = -1
_opened_for = ""


def counters(state: object) -> Dict[str, int]:
    """The whole numbers that a state holds."""
    names = getattr(state, "_saved_state", {})
    values = {name: getattr(state, name, None) for name in names}
    return {name: value for name, value in values.items() if type(value) is int}


def tell(event: str, state: object = None, **facts: int) -> None:
    """Appends a line, if a file is named. One write, so that lines of different processes do not mix."""
    path = os.environ.get("FARANDOLE_ELASTIC_EVENTS")
    if not path:
        return
    line: Dict[str, object] = {
        "event": event,
        "ms": round(time.monotonic() * 1e3, 3),
        "pid": os.getpid(),
        "slot": int(os.environ.get("HOROVOD_RANK", "0")),
        "host": os.environ.get("HOROVOD_HOSTNAME", ""),
        "generation": getattr(job.runtime, "generation", 0),
        **facts,
    }
    if state is not None:
        line["counters"] = counters(state)
    os.write(_file(path), (json.dumps(line) + "\n").encode())


def _file(path: str) -> int:
    global _descriptor, _opened_for
    if path != _opened_for:
        _descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        _opened_for = path
    return _descriptor
