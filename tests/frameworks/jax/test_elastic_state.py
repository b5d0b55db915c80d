"""The elastic state of trees of arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import horovod.jax as hvd
import jax.numpy as jnp
import numpy as np


class Moments(NamedTuple):
    first: Any
    counts: np.ndarray


def test_saving_and_restoring_share_arrays_and_copy_what_can_change() -> None:
    params = {"layers": [jnp.ones(3), (jnp.zeros(2), jnp.arange(4))]}
    moments = Moments(jnp.full(3, 2.0), np.zeros(2))
    state = hvd.elastic.JaxState(params=params, opt=moments, scale=jnp.ones(()), seen=[1])
    scale = state.scale
    for _ in range(2):  # from the constructor's copy, then from that of save()
        state.opt.counts[0] = 9.0
        state.seen.append(2)
        state.restore()
        assert state.params is not params and state.params["layers"][0] is params["layers"][0]
        assert all(mine is given for mine, given in zip(state.params["layers"][1], params["layers"][1]))
        assert state.scale is scale and state.opt.first is moments.first
        assert state.opt.counts is not moments.counts and state.opt.counts[0] == 0.0 and state.seen == [1]
        state.save()
