"""Joins and leaves the job. Before a process leaves, MXNet's engine completes its operations."""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any

from farandole.common import job
from farandole.common.names import basics as _basics
from farandole.mxnet.entry import drain


def init(*args: Any, **kwargs: Any) -> None:
    """Joins the job that the environment names; see ``farandole.common.basics.HorovodBasics.init``."""
    _basics.init(*args, **kwargs)


def shutdown() -> None:
    """Leaves the job, once MXNet's engine has completed its operations or ``FARANDOLE_SHUTDOWN_TIMEOUT`` has passed.
    Operations still in flight then fail, on all ranks. Allows a later ``init()``."""
    _let_engine_end()
    _basics.shutdown()


def _let_engine_end() -> None:
    """Waits for the engine: a script may end while operations still run in it, and other ranks need their data."""
    if _basics.is_initialized() and job.runtime.usable_here:  # not in a child that a data loader has forked
        drain(_seconds_to_shut_down())


def _seconds_to_shut_down() -> float:
    try:
        return float(os.environ.get("FARANDOLE_SHUTDOWN_TIMEOUT", ""))
    except ValueError:
        return 5.0  # as docs/settings.md has it


@atexit.register
def _end_in_order() -> None:
    if not hasattr(sys, "last_value"):  # an exception ends the script: other ranks must not be kept waiting
        _let_engine_end()
