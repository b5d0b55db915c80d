"""Optax optimizers that step with the gradients of all ranks."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Tuple

import jax
import jax.numpy as jnp

from farandole.common.arguments import kind, require_reduction
from farandole.common.basics import HorovodBasics
from farandole.common.gradient_accumulator import check_passes
from farandole.common.process_sets import ProcessSet, global_process_set
from farandole.common.reduction import adds, require_adasum, scales, takes_part
from farandole.common.util import split_list
from farandole.jax import ops
from farandole.jax.compression import Compression
from farandole.jax.entry import as_reals, complex_like
from farandole.jax.objective import of_all_ranks, require_mean_of_functions

Average, Sum, Adasum = HorovodBasics.Average, HorovodBasics.Sum, HorovodBasics.Adasum


class DistributedState(NamedTuple):
    """The state of a distributed optimizer that adds up several backward passes."""

    inner: Any
    passes: Any
    """Backward passes since the last step, int32."""
    sums: Any
    """The sums of their gradients, a tree like the gradients."""


class _Reduction(NamedTuple):
    """How gradients are reduced."""

    name: str
    compression: Any
    op: int
    scales: Tuple[float, float]
    groups: Optional[int]
    process_set: ProcessSet

    def __call__(self, gradients: Any, suffix: str = "") -> Any:
        """The same tree on all ranks. All of it is one operation unless ``groups`` asks for more."""
        values, tree = jax.tree_util.tree_flatten(gradients)
        if not values or not takes_part(self.process_set):
            return gradients
        reduced: List[Any] = []
        for i, members in enumerate(split_list(values, self.groups or 1)):
            reduced += ops.grouped_allreduce(
                [as_reals(each) if adds(self.op) else each for each in members],
                name=f"{self.name}{suffix}.{i}",
                compression=self.compression,
                op=self.op,
                prescale_factor=self.scales[0],
                postscale_factor=self.scales[1],
                process_set=self.process_set,
            )
        return jax.tree_util.tree_unflatten(tree, map(complex_like, values, reduced))

    def loss(self, value: Any) -> Any:
        """The loss of all ranks: their mean, or the sum where the gradients are added up."""
        if not takes_part(self.process_set):
            return value
        op = Sum if self.op == Sum else Average
        return ops.allreduce(value, name=f"{self.name}.value", op=op, process_set=self.process_set)


def DistributedOptimizer(
    optimizer: Any,
    name: Optional[str] = None,
    compression: Any = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    groups: Optional[int] = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """An Optax optimizer whose ``update`` takes this rank's gradients and steps with those of all ranks.

    It is an ``optax.GradientTransformationExtraArgs`` and works inside ``jit`` and outside.

    Optimizers that take the loss or functions of it (``value``, ``grad``, ``value_fn``, ``grad_fn``), as line searches
    do, get those of all ranks: pass this rank's own.

    :param optimizer: an ``optax.GradientTransformation``
    :param name: tells several optimizers of a job apart; ``DistributedOptimizer`` by default
    :param compression: compressor for the gradients: ``Compression.none``, ``.fp16`` or ``.bf16``
    :param backward_passes_per_step: gradients of so many updates are added up before they are reduced; the updates
        between bring zeros
    :param op: ``Average``, ``Sum``, ``Min``, ``Max``, ``Product``; with ``Adasum`` each rank steps on its own,
        and the changes of the parameters are combined
    :param gradient_predivide_factor: with ``Average``, gradients are divided by it before they are summed and
        multiplied afterwards
    :param average_aggregated_gradients: divide the sum of the passes by their number
    :param groups: into how many operations gradients are put; one by default
    :param process_set: the ranks that take part; all ranks by default
    """
    import optax

    if not callable(getattr(optimizer, "update", None)):
        raise TypeError(
            f"DistributedOptimizer takes an optax.GradientTransformation, not {kind(optimizer)}; make one, such as "
            "optax.sgd(0.01)"
        )
    require_reduction("DistributedOptimizer", compression, process_set)
    check_passes(backward_passes_per_step)
    if groups is not None and (isinstance(groups, bool) or not isinstance(groups, int) or groups <= 0):
        raise ValueError(f"groups should be a positive integer, not {groups!r}")
    inner = optax.with_extra_args_support(optimizer)
    name = name or "DistributedOptimizer"
    reduce = _Reduction(name, compression, op, scales(op, gradient_predivide_factor), groups, process_set)

    def step(gradients: Any, state: Any, params: Any, extra: Any) -> Any:
        if op != Adasum:
            require_mean_of_functions(extra, op, backward_passes_per_step)
            reduced = reduce(gradients)

            def reduced_once(each: Any, suffix: str) -> Any:
                return reduced if each is gradients else reduce(each, suffix)

            return inner.update(reduced, state, params, **of_all_ranks(extra, reduced_once, reduce.loss))
        require_adasum(process_set, process_set.size() or 1)
        updates, state = inner.update(gradients, state, params, **extra)
        return reduce(updates), state

    def update(gradients: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        return step(gradients, state, params, extra)

    if backward_passes_per_step == 1:
        return optax.GradientTransformationExtraArgs(inner.init, update)
    return _accumulating(optax, inner, step, backward_passes_per_step, average_aggregated_gradients)


def _accumulating(optax: Any, inner: Any, step: Any, passes: int, is_mean: bool) -> Any:
    def init(params: Any) -> DistributedState:
        return DistributedState(inner.init(params), jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, params))

    def update(gradients: Any, state: DistributedState, params: Any = None, **extra: Any) -> Any:
        sums = jax.tree.map(jnp.add, state.sums, gradients)

        def take(sums: Any) -> Any:
            due = jax.tree.map(lambda each: each / passes, sums) if is_mean else sums
            updates, after = step(due, state.inner, params, extra)
            return updates, DistributedState(after, jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, sums))

        def wait(sums: Any) -> Any:
            # Both branches of a condition give the same types, and an optimizer may widen those of gradients and state.
            updates, after = jax.eval_shape(take, sums)
            zeros = jax.tree.map(lambda each: jnp.zeros(each.shape, each.dtype), updates)
            inner = jax.tree.map(_widened, state.inner, after.inner)
            return zeros, DistributedState(inner, state.passes + 1, sums)

        # Every rank counts alike, so all of them come to the collective at the same update.
        return jax.lax.cond(state.passes + 1 >= passes, take, wait, sums)

    return optax.GradientTransformationExtraArgs(init, update)


def _widened(value: Any, other: Any) -> Any:
    return value if getattr(value, "dtype", other.dtype) == other.dtype else value.astype(other.dtype)
