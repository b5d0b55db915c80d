"""Waits for programs that were called, since JAX returns before they have run."""

from __future__ import annotations

import time
from typing import Sequence

import jax
import jax.numpy as jnp
import numpy

_POLL_S = 0.005
"""``block_until_ready`` has no deadline, and a process that ends can start no thread."""


def finish(seconds: float) -> bool:
    """Waits at most so long for the programs that this thread has called; returns whether all have run or failed."""
    until = time.monotonic() + seconds
    # Programs of one thread run in order; this negation is the last.
    return _wait(jax.live_arrays(), until) and _wait([jax.jit(jnp.negative)(numpy.float32(0))], until)


def _wait(arrays: Sequence[jax.Array], until: float) -> bool:
    for each in arrays:
        while not each.is_deleted() and not each.is_ready():
            if time.monotonic() >= until:
                return False
            time.sleep(_POLL_S)
    return True
