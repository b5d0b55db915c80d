"""Variables of this process for as long as a child process is started: a job has the settings that the environment of
its rendezvous contains."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Iterator, Mapping

PREFIXES = ("HOROVOD_", "FARANDOLE_")
"""Of the names of settings."""


@contextlib.contextmanager
def settings_in_environment(variables: Mapping[str, Any]) -> Iterator[None]:
    """Sets those of the variables that are settings, and restores the environment at the end."""
    settings = {name: str(value) for name, value in variables.items() if name.startswith(PREFIXES)}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
