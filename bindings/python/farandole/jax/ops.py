"""The operations, for JAX arrays and inside programs. Their gradients are those of ``farandole.torch``."""

from __future__ import annotations

import functools
from typing import Any, Optional, Sequence, Tuple

import jax
import jax.numpy as jnp
import numpy

from farandole.common import arguments
from farandole.common.arguments import row_counts
from farandole.common.calls import handle_average_backwards_compatibility
from farandole.common.operations import ALLGATHER, ALLREDUCE, ALLTOALL, BROADCAST, REDUCESCATTER
from farandole.common.process_sets import ProcessSet
from farandole.common.wrappers import Wrapper, public_in
from farandole.jax.compression import Compression
from farandole.jax.entry import as_array
from farandole.jax.gradients import collective
from farandole.jax.program import Asked, called, is_traced
from farandole.numpy import ops as numpy_ops

_SCALES = "-1, prescale_factor, postscale_factor"
_REQUESTS = {
    "allreduce": f"Asked({ALLREDUCE}, name, process_set, reduction(op, average), {_SCALES})",
    "grouped_allreduce": (
        f"Asked({ALLREDUCE}, name, process_set, reduction(op, average, 'grouped_allreduce'), {_SCALES}, grouped=True)"
    ),
    "allgather": f"Asked({ALLGATHER}, name, process_set)",
    "grouped_allgather": f"Asked({ALLGATHER}, name, process_set, grouped=True)",
    "broadcast": f"Asked({BROADCAST}, name, process_set, root=root_rank)",
    "reducescatter": f"Asked({REDUCESCATTER}, name, process_set, op, {_SCALES})",
    "grouped_reducescatter": f"Asked({REDUCESCATTER}, name, process_set, op, {_SCALES}, grouped=True)",
}


def pack(operation: str, name: Optional[str], compression: Any, tensor: Any) -> Tuple[Any, Any]:
    return arguments.pack(operation, name, compression, as_array(tensor, operation, name))


def pack_group(operation: str, name: Optional[str], compression: Any, tensors: Sequence[Any]) -> Tuple[Any, Any]:
    packed, contexts = zip(*(pack(operation, name, compression, each) for each in tensors))
    return packed, contexts


def run_group(asked: Asked, name: Optional[str], tensors: Sequence[Any], process_set: ProcessSet) -> Sequence[Any]:
    return collective(asked, tuple(as_array(each, called(asked), name) for each in tensors))


def run_alone(asked: Asked, name: Optional[str], tensor: Any, process_set: ProcessSet) -> Any:
    return run_group(asked, name, [tensor], process_set)[0]


wrapper = Wrapper(
    "jax",
    __name__,
    _REQUESTS,
    is_call=False,
    Asked=Asked,
    Compression=Compression,
    pack=pack,
    pack_group=pack_group,
    reduction=handle_average_backwards_compatibility,
)

allreduce = wrapper("allreduce", run_alone)
grouped_allreduce = wrapper("grouped_allreduce", run_group)
allgather = wrapper("allgather", run_alone)
grouped_allgather = wrapper("grouped_allgather", run_group)
broadcast = wrapper("broadcast", run_alone)
reducescatter = wrapper("reducescatter", run_alone)
grouped_reducescatter = wrapper("grouped_reducescatter", run_group)

_SPLITS_INSIDE = "alltoall with splits: inside jit shapes are fixed; call it outside, or without splits"


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3))
def _deal(tensor: Any, splits: Tuple[int, ...], name: Optional[str], process_set: ProcessSet) -> Tuple[Any, Any]:
    if is_traced([tensor]):
        raise ValueError(_SPLITS_INSIDE)
    rows, received = numpy_ops.alltoall(numpy.asarray(tensor), list(splits), name, process_set)
    if received.dtype != jax.dtypes.canonicalize_dtype(received.dtype):
        raise ValueError(
            f"{arguments.head('alltoall', name)} has received {max(received)} rows from one rank, and JAX counts in "
            "int32; call jax.config.update('jax_enable_x64', True) for int64, or send fewer rows at once"
        )
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


@public_in("jax")
def alltoall(tensor, splits, name, process_set):
    array = as_array(tensor, "alltoall", name)
    if is_traced([splits]):
        raise ValueError(_SPLITS_INSIDE)
    if splits is None:
        return collective(Asked(ALLTOALL, name, process_set), (array,))[0]
    return _deal(array, tuple(row_counts("alltoall", name, splits) or ()), name, process_set)
