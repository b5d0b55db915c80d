"""The operations, for JAX arrays and inside programs. Their gradients are those of ``farandole.torch``."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, List, Optional, Sequence, Tuple, Union

import jax
import jax.numpy as jnp
import numpy

from farandole.common import calls
from farandole.common.arguments import listed, pack, row_counts
from farandole.common.basics import HorovodBasics
from farandole.common.operations import ALLGATHER, ALLREDUCE, ALLTOALL, BROADCAST, REDUCESCATTER, public
from farandole.common.process_sets import ProcessSet, global_process_set
from farandole.jax.compression import Compression
from farandole.jax.entry import as_array, run
from farandole.jax.program import Asked, called, is_traced, seat_in
from farandole.numpy import ops as numpy_ops

Average = HorovodBasics.Average
Sum = HorovodBasics.Sum

Tensors = Tuple[Any, ...]

_SPLITS_INSIDE = "alltoall with splits: inside jit shapes are fixed; call it outside, or without splits"


# ---- one differentiable function for all operations


def _collective(asked: Asked, tensors: Tensors) -> Tensors:
    # What is not traced has no gradient to record, and is spared the way through JAX.
    return _differentiable(asked, tensors) if is_traced(tensors) else run(asked, tensors)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _differentiable(asked: Asked, tensors: Tensors) -> Tensors:
    return run(asked, tensors)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class _Kinds:
    """Shapes and types of the tensors that went in: all that the way back wants to know of them."""

    of: Tuple[jax.ShapeDtypeStruct, ...]


def _forward(asked: Asked, tensors: Tensors) -> Tuple[Tensors, _Kinds]:
    # Differentiable again: a second derivative goes through here.
    return _collective(asked, tensors), _Kinds(tuple(jax.ShapeDtypeStruct(each.shape, each.dtype) for each in tensors))


def _backward(asked: Asked, kinds: _Kinds, incoming: Tensors) -> Tuple[Tensors]:
    """Tensors that are not differentiable travel no second time."""
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
    """What travels backward has a name of its own, since the same program may hold both ways."""
    return asked._replace(name=asked.name and f"{asked.name}.{suffix}", **changes)


def _mean(asked: Asked, gradients: Sequence[Any]) -> Tensors:
    back = Asked(ALLREDUCE, _back(asked).name, asked.process_set, Average, grouped=asked.grouped)
    return _collective(back, tuple(gradients))


def _allreduce_backward(asked: Asked, tensors: Sequence[Any], gradients: Sequence[Any]) -> Sequence[Any]:
    return _collective(_back(asked), tuple(gradients))


def _broadcast_backward(asked: Asked, tensors: Sequence[Any], gradients: Sequence[Any]) -> Sequence[Any]:
    is_root = jnp.asarray(HorovodBasics("").rank() == asked.root)
    # A choice at run time: the instruction must stand in the program of every rank.
    return [jnp.where(is_root, each, jnp.zeros_like(each)) for each in _mean(asked, gradients)]


def _allgather_backward(asked: Asked, tensors: Sequence[Any], gradients: Sequence[Any]) -> Sequence[Any]:
    seat = seat_in(asked.process_set)
    means = _mean(asked, gradients)
    rows = [each.shape[0] for each in tensors]
    if is_traced(gradients):
        before = [seat.rank * each for each in rows]
    else:
        name = asked.name and f"{asked.name}.rows"
        of_all = numpy_ops.allgather(numpy.asarray([rows], numpy.int64), name, asked.process_set)
        before = of_all[: seat.rank].sum(axis=0).tolist()
    return [mean[first : first + count] for mean, first, count in zip(means, before, rows)]


def _reducescatter_backward(asked: Asked, tensors: Sequence[Any], gradients: Sequence[Any]) -> Sequence[Any]:
    seat = seat_in(asked.process_set)
    factor = asked.prescale * asked.postscale * (seat.size if asked.reduce_op == Sum else 1)
    scaled = [each * jnp.asarray(factor, each.dtype) for each in gradients]
    outgoing: List[Any] = []
    for i, (tensor, gradient) in enumerate(zip(tensors, scaled)):
        rows = tensor.shape[0]
        suffix = f"gradient.{i}" if asked.grouped else "gradient"
        back = _back(asked, suffix, operation=ALLGATHER, grouped=False, rows=rows if rows % seat.size else None)
        outgoing += _collective(back, (gradient,))
    return outgoing


def _alltoall_backward(asked: Asked, tensors: Sequence[Any], gradients: Sequence[Any]) -> Sequence[Any]:
    return _collective(_back(asked), tuple(gradients))


_BACKWARD = {
    ALLREDUCE: _allreduce_backward,
    ALLGATHER: _allgather_backward,
    BROADCAST: _broadcast_backward,
    ALLTOALL: _alltoall_backward,
    REDUCESCATTER: _reducescatter_backward,
}


def _compressed(asked: Asked, tensors: Sequence[Any], compression: Any) -> List[Any]:
    operation = called(asked)
    packed = [pack(operation, asked.name, compression, as_array(each, operation, asked.name)) for each in tensors]
    outputs = _collective(asked, tuple(each for each, _ in packed))
    return [compression.decompress(each, context) for each, (_, context) in zip(outputs, packed)]


# ---- allreduce


@public
def allreduce(
    tensor: Any,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: Any = Compression.none,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    chosen = calls.handle_average_backwards_compatibility(op, average)
    calls.requests[chosen, prescale_factor, postscale_factor]  # refuses what is no reduction
    asked = Asked(ALLREDUCE, name, process_set, chosen, -1, prescale_factor, postscale_factor)
    return _compressed(asked, [tensor], compression)[0]


@public
def grouped_allreduce(
    tensors: Sequence[Any],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: Any = Compression.none,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> List[Any]:
    tensors = listed("grouped_allreduce", name, tensors)
    if not tensors:
        return []
    chosen = calls.handle_average_backwards_compatibility(op, average, "grouped_allreduce")
    calls.requests[chosen, prescale_factor, postscale_factor]
    asked = Asked(ALLREDUCE, name, process_set, chosen, -1, prescale_factor, postscale_factor, grouped=True)
    return _compressed(asked, tensors, compression)


# ---- allgather


@public
def allgather(tensor: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> Any:
    return _collective(Asked(ALLGATHER, name, process_set), (as_array(tensor, "allgather", name),))[0]


@public
def grouped_allgather(
    tensors: Sequence[Any], name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Tuple[Any, ...]:
    tensors = listed("grouped_allgather", name, tensors)
    if not tensors:
        return ()
    arrays = tuple(as_array(each, "grouped_allgather", name) for each in tensors)
    return tuple(_collective(Asked(ALLGATHER, name, process_set, grouped=True), arrays))


# ---- broadcast


@public
def broadcast(
    tensor: Any, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Any:
    return _collective(Asked(BROADCAST, name, process_set, root=root_rank), (as_array(tensor, "broadcast", name),))[0]


# ---- alltoall


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3))
def _deal(tensor: Any, splits: Tuple[int, ...], name: Optional[str], process_set: ProcessSet) -> Tuple[Any, Any]:
    if is_traced([tensor]):
        raise ValueError(_SPLITS_INSIDE)
    rows, received = numpy_ops.alltoall(numpy.asarray(tensor), list(splits), name, process_set)
    return jnp.asarray(rows), jnp.asarray(received)


def _deal_forward(
    tensor: Any, splits: Tuple[int, ...], name: Optional[str], process_set: ProcessSet
) -> Tuple[Tuple[Any, Any], Tuple[int, ...]]:
    rows, received = _deal(tensor, splits, name, process_set)
    return (rows, received), tuple(received.tolist())


def _deal_backward(
    splits: Tuple[int, ...],
    name: Optional[str],
    process_set: ProcessSet,
    received: Tuple[int, ...],
    incoming: Tuple[Any, Any],
) -> Tuple[Any]:
    return (_deal(incoming[0], tuple(int(each) for each in received), name and f"{name}.gradient", process_set)[0],)


_deal.defvjp(_deal_forward, _deal_backward)


@public
def alltoall(
    tensor: Any,
    splits: Any = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Union[Any, Tuple[Any, Any]]:
    array = as_array(tensor, "alltoall", name)
    if is_traced([splits]):
        raise ValueError(_SPLITS_INSIDE)
    if splits is None:
        return _collective(Asked(ALLTOALL, name, process_set), (array,))[0]
    return _deal(array, tuple(row_counts("alltoall", name, splits) or ()), name, process_set)


# ---- reducescatter


@public
def reducescatter(
    tensor: Any,
    name: Optional[str] = None,
    compression: Any = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    calls.scatters[op, prescale_factor, postscale_factor]
    asked = Asked(REDUCESCATTER, name, process_set, op, -1, prescale_factor, postscale_factor)
    return _compressed(asked, [tensor], compression)[0]


@public
def grouped_reducescatter(
    tensors: Sequence[Any],
    name: Optional[str] = None,
    compression: Any = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> List[Any]:
    tensors = listed("grouped_reducescatter", name, tensors)
    if not tensors:
        return []
    calls.scatters[op, prescale_factor, postscale_factor]
    asked = Asked(REDUCESCATTER, name, process_set, op, -1, prescale_factor, postscale_factor, grouped=True)
    return _compressed(asked, tensors, compression)
