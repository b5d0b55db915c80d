"""Submits JAX arrays to the native runtime. Outside a program an array is submitted as the NumPy array that it is in
host memory; inside one, the same call becomes an instruction (``program``). Both have gradients.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import jax
import jax.numpy as jnp
import numpy

from farandole.common import arrays as entry
from farandole.common import calls
from farandole.common.arguments import head, kind, require_name, require_process_set
from farandole.common.operations import ALLGATHER, ALLREDUCE, ALLTOALL, BROADCAST
from farandole.jax.program import Asked, called, is_traced, put
from farandole.numpy import ops

_MOVED_AS_BYTES = ("complex", "float8", "uint32", "uint64")
"""How the names of types begin that the kernels do not know."""


def run(asked: Asked, tensors: Sequence[Any]) -> Tuple[Any, ...]:
    """Runs the operation, or adds it to the program that is being traced."""
    require_name(called(asked), asked.name)
    require_process_set(called(asked), asked.name, asked.process_set)
    request = _request(asked)  # raises for an unknown reduction
    if is_traced(tensors):
        known = [_known(asked, each) for each in tensors]
        return tuple(_restored(moved, each) for moved, each in zip(put(asked, known), tensors))
    arrays = [entry.contiguous(numpy.asarray(each)) for each in tensors]
    return tuple(
        weakly_typed(found) if is_weak(each) else jnp.asarray(found)
        for each, found in zip(tensors, _outside(asked, request, arrays))
    )


def is_weak(value: Any) -> bool:
    """Whether it is a JAX array of a weak type, which does not widen the results of expressions."""
    return getattr(value, "weak_type", False)


def weakly_typed(values: Any) -> Any:
    """A JAX array of a weak type, with the elements of this NumPy array."""
    weak = jnp.asarray(values.dtype.type(0).item()) if values.dtype != bool else jnp.asarray(0) > 0
    return jnp.broadcast_to(weak, values.shape).at[...].set(values)


def as_reals(tensor: Any) -> Any:
    """A complex tensor as pairs of real numbers, in one more dimension; any other tensor as it is."""
    return jnp.stack([tensor.real, tensor.imag], -1) if jnp.iscomplexobj(tensor) else tensor


def complex_like(tensor: Any, reals: Any) -> Any:
    """The inverse of ``as_reals``."""
    return jax.lax.complex(reals[..., 0], reals[..., 1]) if jnp.iscomplexobj(tensor) else reals


def _known(asked: Asked, tensor: Any) -> Any:
    """The value for an operation that computes nothing, in a type that the kernels know: complex numbers as pairs, and
    elements of other types as bytes, in one more dimension."""
    dtype = tensor.dtype
    is_moved = asked.operation == BROADCAST or (asked.operation in (ALLGATHER, ALLTOALL) and tensor.ndim > 0)
    if not is_moved or not dtype.name.startswith(_MOVED_AS_BYTES):
        return tensor
    if jnp.iscomplexobj(tensor):
        return as_reals(tensor)
    return jax.lax.bitcast_convert_type(tensor, jnp.uint8)


def _restored(moved: Any, tensor: Any) -> Any:
    """The inverse of ``_known``."""
    if moved.dtype == tensor.dtype:
        return moved
    if jnp.iscomplexobj(tensor):
        return complex_like(tensor, moved)
    return jax.lax.bitcast_convert_type(moved, tensor.dtype)


def _outside(asked: Asked, request: Any, arrays: List[Any]) -> Sequence[Any]:
    name, process_set = asked.name, asked.process_set
    if asked.operation in (ALLGATHER, ALLTOALL):
        if not asked.grouped:
            return [entry.start_unsized(request, name, arrays[0], process_set).finish()]
        return entry.start_group(request, name, arrays, None, process_set).finish()
    if asked.operation in (ALLREDUCE, BROADCAST):
        outputs = [numpy.empty_like(each) for each in arrays]
    else:
        outputs = [ops.share_of(each, process_set) for each in arrays]
    if not asked.grouped:
        return [entry.start(request, name, arrays[0], outputs[0], process_set).finish()]
    return entry.start_group(request, name, arrays, outputs, process_set).finish()


def _request(asked: Asked) -> Any:
    if asked.operation == ALLGATHER:
        return calls.GROUPED_ALLGATHER if asked.grouped else calls.allgathers[False]
    if asked.operation == ALLTOALL:
        return calls.alltoalls[False]
    if asked.operation == BROADCAST:
        return calls.broadcasts[asked.root, False]
    if asked.operation == ALLREDUCE:
        reduction = calls.grouped_reduction if asked.grouped else calls.reduction
        return reduction(None, asked.reduce_op, asked.prescale, asked.postscale)
    scatters = calls.grouped_scatters if asked.grouped else calls.scatters
    return scatters[asked.reduce_op, asked.prescale, asked.postscale, False]


def as_array(tensor: Any, operation: str, name: Optional[str]) -> Any:
    """A JAX array, or a program's value, of anything that JAX makes one of."""
    if isinstance(tensor, (jax.Array, jax.core.Tracer)):
        return tensor
    try:
        return jnp.asarray(tensor)
    except (TypeError, ValueError):
        raise TypeError(
            f"{head(operation, name)} takes a jax.Array, or what jax.numpy.asarray() makes one of, not {kind(tensor)}; "
            "convert it to numbers first"
        ) from None
