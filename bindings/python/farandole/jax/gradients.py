"""One differentiable function for all operations: how gradients travel back through each of them."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, List, Sequence, Tuple

import jax
import jax.numpy as jnp
import numpy

from farandole.common.basics import HorovodBasics
from farandole.common.operations import ALLGATHER, ALLREDUCE, ALLTOALL, BROADCAST, REDUCESCATTER
from farandole.jax.entry import as_reals, complex_like, run
from farandole.jax.program import Asked, is_traced, set_rank_in
from farandole.numpy import ops as numpy_ops

Average = HorovodBasics.Average
Sum = HorovodBasics.Sum

Tensors = Tuple[Any, ...]


def collective(asked: Asked, tensors: Tensors) -> Tensors:
    """Runs an operation, and lets JAX differentiate through it."""
    # Without tracing there is no gradient to record, so the call bypasses JAX.
    return _differentiable(asked, tensors) if is_traced(tensors) else run(asked, tensors)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _differentiable(asked: Asked, tensors: Tensors) -> Tensors:
    return run(asked, tensors)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class _Kinds:
    """Shapes and types of the input tensors: all that the backward pass needs to know of them."""

    of: Tuple[jax.ShapeDtypeStruct, ...]


def _forward(asked: Asked, tensors: Tensors) -> Tuple[Tensors, _Kinds]:
    # Differentiable again: a second derivative goes through here.
    return collective(asked, tensors), _Kinds(tuple(jax.ShapeDtypeStruct(each.shape, each.dtype) for each in tensors))


def _backward(asked: Asked, kinds: _Kinds, incoming: Tensors) -> Tuple[Tensors]:
    """Communicates the gradients of differentiable tensors only."""
    tensors = kinds.of
    moving = [i for i, each in enumerate(tensors) if jnp.issubdtype(each.dtype, jnp.inexact)]
    outgoing = list(incoming)
    for i, each in enumerate(tensors):
        if i not in moving:
            outgoing[i] = numpy.zeros(each.shape, jax.dtypes.float0)
    if moving:
        gradients = _BACKWARD[asked.operation](asked, [tensors[i] for i in moving], [incoming[i] for i in moving])
        for i, gradient in zip(moving, gradients):
            outgoing[i] = gradient
    return (tuple(outgoing),)


_differentiable.defvjp(_forward, _backward)


def _back(asked: Asked, suffix: str = "gradient", **changes: Any) -> Asked:
    """The backward operation has a different name, since one program may contain both."""
    return asked._replace(name=asked.name and f"{asked.name}.{suffix}", **changes)


def _mean(asked: Asked, gradients: Sequence[Any]) -> Tensors:
    back = Asked(ALLREDUCE, _back(asked).name, asked.process_set, Average, grouped=asked.grouped)
    means = collective(back, tuple(as_reals(each) for each in gradients))
    return tuple(complex_like(each, mean) for each, mean in zip(gradients, means))


def _same_backward(asked: Asked, tensors: Sequence[Any], gradients: Sequence[Any]) -> Sequence[Any]:
    return collective(_back(asked), tuple(gradients))


def _broadcast_backward(asked: Asked, tensors: Sequence[Any], gradients: Sequence[Any]) -> Sequence[Any]:
    is_root = jnp.asarray(HorovodBasics("").rank() == asked.root)
    # A choice at run time: the instruction must stand in the program of every rank.
    return [jnp.where(is_root, each, jnp.zeros_like(each)) for each in _mean(asked, gradients)]


def _allgather_backward(asked: Asked, tensors: Sequence[Any], gradients: Sequence[Any]) -> Sequence[Any]:
    set_rank = set_rank_in(asked.process_set)
    means = _mean(asked, gradients)
    rows = [each.shape[0] for each in tensors]
    if is_traced(gradients):
        # Ranks contribute equally many rows, or the first ones one more: the shares of a reducescatter.
        shares = [divmod(each.shape[0], set_rank.size) for each in means]
        before = [set_rank.rank * each + min(set_rank.rank, left) for each, left in shares]
    else:
        name = asked.name and f"{asked.name}.rows"
        of_all = numpy_ops.allgather(numpy.asarray([rows], numpy.int64), name, asked.process_set)
        before = of_all[: set_rank.rank].sum(axis=0).tolist()
    return [mean[first : first + count] for mean, first, count in zip(means, before, rows)]


def _reducescatter_backward(asked: Asked, tensors: Sequence[Any], gradients: Sequence[Any]) -> Sequence[Any]:
    set_rank = set_rank_in(asked.process_set)
    factor = asked.prescale * asked.postscale * (set_rank.size if asked.reduce_op == Sum else 1)
    scaled = [each * jnp.asarray(factor, each.dtype) for each in gradients]
    outgoing: List[Any] = []
    for i, (tensor, gradient) in enumerate(zip(tensors, scaled)):
        rows = tensor.shape[0]
        suffix = f"gradient.{i}" if asked.grouped else "gradient"
        back = _back(asked, suffix, operation=ALLGATHER, grouped=False, rows=rows if rows % set_rank.size else None)
        outgoing += collective(back, (gradient,))
    return outgoing


_BACKWARD = {
    ALLREDUCE: _same_backward,
    ALLGATHER: _allgather_backward,
    BROADCAST: _broadcast_backward,
    ALLTOALL: _same_backward,
    REDUCESCATTER: _reducescatter_backward,
}
