"""The elastic state of trees of arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import horovod.jax as hvd
import jax
import jax.numpy as jnp
import numpy as np


class Moments(NamedTuple):
    first: Any
    counts: np.ndarray


def test_saving_and_restoring_copy_what_can_change() -> None:
    moments = Moments(jnp.full(3, 2.0), np.zeros(2))
    state = hvd.elastic.JaxState(opt=moments, seen=[1])
    for _ in range(2):  # from the constructor's copy, then from that of save()
        state.opt.counts[0] = 9.0
        state.seen.append(2)
        state.restore()
        assert state.opt.counts is not moments.counts and state.opt.counts[0] == 0.0 and state.seen == [1]
        state.save()


def test_arrays_are_restored_after_a_program_to_which_they_were_donated() -> None:
    step = jax.jit(lambda values: jax.tree.map(lambda each: each + 1, values), donate_argnums=0)
    params = {"layers": [jnp.ones(3), (jnp.zeros(2), jnp.arange(4))]}
    state = hvd.elastic.JaxState(params=params, scale=jnp.ones(()))
    for saves in range(2):  # from the constructor's copy, then from that of save()
        for _ in range(2):  # a restored array is donated, too
            state.params, state.scale = step((state.params, state.scale))
            state.restore()
            assert state.scale == 1 + saves and state.params["layers"][1][1].tolist() == [saves + i for i in range(4)]
        state.params, state.scale = step((state.params, state.scale))
        state.save()


def test_a_rank_that_has_not_evaluated_yet_receives_the_values_of_rank_0(rank: int) -> None:
    params = {"w": jnp.full(3, float(rank))}
    state = hvd.elastic.JaxState(params=params, loss=0.0, best=None, kept=jnp.zeros(2 + rank))
    if rank == 0:
        state.loss, state.best = jnp.ones(()) / 2, state.params
        state.save()
    state.sync()
    assert float(state.loss) == 0.5 and state.params["w"].tolist() == state.best["w"].tolist() == [0.0] * 3
    assert state.kept.shape == (2,)
