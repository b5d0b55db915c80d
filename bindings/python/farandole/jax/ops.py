"""The operations, for JAX arrays and inside programs. Their gradients are those of ``farandole.torch``."""

from __future__ import annotations

import functools
from typing import Any, List, Optional, Sequence, Tuple, Union  # noqa: F401  (the table of signatures names them)

import jax
import jax.numpy as jnp
import numpy

from farandole.common import calls
from farandole.common.arguments import listed, pack, row_counts
from farandole.common.operations import ALLGATHER, ALLREDUCE, ALLTOALL, BROADCAST, REDUCESCATTER
from farandole.common.process_sets import ProcessSet
from farandole.common.wrappers import public_in
from farandole.jax.compression import Compression
from farandole.jax.entry import as_array
from farandole.jax.gradients import collective
from farandole.jax.program import Asked, called, is_traced
from farandole.numpy import ops as numpy_ops

public = public_in("jax", Compression=Compression)

_SPLITS_INSIDE = "alltoall with splits: inside jit shapes are fixed; call it outside, or without splits"


def _compressed(asked: Asked, tensors: Sequence[Any], compression: Any) -> List[Any]:
    operation = called(asked)
    packed = [pack(operation, asked.name, compression, as_array(each, operation, asked.name)) for each in tensors]
    outputs = collective(asked, tuple(each for each, _ in packed))
    return [compression.decompress(each, context) for each, (_, context) in zip(outputs, packed)]


# ---- allreduce


@public
def allreduce(tensor, average, name, compression, op, prescale_factor, postscale_factor, process_set):
    chosen = calls.handle_average_backwards_compatibility(op, average)
    calls.requests[chosen, prescale_factor, postscale_factor]  # refuses what is no reduction
    asked = Asked(ALLREDUCE, name, process_set, chosen, -1, prescale_factor, postscale_factor)
    return _compressed(asked, [tensor], compression)[0]


@public
def grouped_allreduce(tensors, average, name, compression, op, prescale_factor, postscale_factor, process_set):
    tensors = listed("grouped_allreduce", name, tensors)
    if not tensors:
        return []
    chosen = calls.handle_average_backwards_compatibility(op, average, "grouped_allreduce")
    calls.requests[chosen, prescale_factor, postscale_factor]
    asked = Asked(ALLREDUCE, name, process_set, chosen, -1, prescale_factor, postscale_factor, grouped=True)
    return _compressed(asked, tensors, compression)


# ---- allgather


@public
def allgather(tensor, name, process_set):
    return collective(Asked(ALLGATHER, name, process_set), (as_array(tensor, "allgather", name),))[0]


@public
def grouped_allgather(tensors, name, process_set):
    tensors = listed("grouped_allgather", name, tensors)
    if not tensors:
        return ()
    arrays = tuple(as_array(each, "grouped_allgather", name) for each in tensors)
    return tuple(collective(Asked(ALLGATHER, name, process_set, grouped=True), arrays))


# ---- broadcast


@public
def broadcast(tensor, root_rank, name, process_set):
    return collective(Asked(BROADCAST, name, process_set, root=root_rank), (as_array(tensor, "broadcast", name),))[0]


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
def alltoall(tensor, splits, name, process_set):
    array = as_array(tensor, "alltoall", name)
    if is_traced([splits]):
        raise ValueError(_SPLITS_INSIDE)
    if splits is None:
        return collective(Asked(ALLTOALL, name, process_set), (array,))[0]
    return _deal(array, tuple(row_counts("alltoall", name, splits) or ()), name, process_set)


# ---- reducescatter


@public
def reducescatter(tensor, name, compression, op, process_set, prescale_factor, postscale_factor):
    calls.scatters[op, prescale_factor, postscale_factor]
    asked = Asked(REDUCESCATTER, name, process_set, op, -1, prescale_factor, postscale_factor)
    return _compressed(asked, [tensor], compression)[0]


@public
def grouped_reducescatter(tensors, name, compression, op, process_set, prescale_factor, postscale_factor):
    tensors = listed("grouped_reducescatter", name, tensors)
    if not tensors:
        return []
    calls.scatters[op, prescale_factor, postscale_factor]
    asked = Asked(REDUCESCATTER, name, process_set, op, -1, prescale_factor, postscale_factor, grouped=True)
    return _compressed(asked, tensors, compression)
