"""Waits for programs that were called, since JAX returns before they have run."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy


def finish() -> None:
    """Waits for the programs that this thread has called, without a limit: a program may need operations of a rank that
    is late. The stall check watches these operations, as all others."""
    # Programs of one thread run in order; this one comes last.
    last = jax.jit(jnp.negative)(numpy.float32(0))
    for each in [*jax.live_arrays(), last]:
        if not each.is_deleted():
            try:
                each.block_until_ready()
            except RuntimeError:
                pass  # its program has failed; a reader of the value gets the error
