"""Waits for programs that were called, since JAX returns before they have run."""

from __future__ import annotations

import atexit
import sys

import jax
import jax.numpy as jnp
import numpy

from farandole.common.barrier_join import before_join
from farandole.common.job import is_started


def finish() -> None:
    """Waits for the programs that this thread has called."""
    # Programs of one thread run in order; this one comes last.
    last = jax.jit(jnp.negative)(numpy.float32(0))
    for each in [*jax.live_arrays(), last]:
        if not each.is_deleted():
            try:
                each.block_until_ready()
            except RuntimeError:
                pass  # its program has failed; a reader of the value gets the error


def _finish_at_exit() -> None:
    # A process that an exception ends must not wait for ranks that go on.
    if is_started() and not hasattr(sys, "last_value"):
        finish()


# Handlers registered last are called first, so this one runs before the job is left.
atexit.register(_finish_at_exit)
before_join.append(finish)
