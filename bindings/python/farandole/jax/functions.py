"""Gives parameters to all ranks, and arrays in objects."""

from __future__ import annotations

from typing import Any, Tuple

import jax
import jax.numpy as jnp
import numpy

from farandole.common.handles import synchronize
from farandole.common.object_pickler import ObjectPickler
from farandole.common.process_sets import ProcessSet, global_process_set
from farandole.jax import ops
from farandole.jax.entry import is_weak, weakly_typed
from farandole.jax.program import KNOWN_TYPES, is_traced
from farandole.numpy import ops as numpy_ops


def broadcast_parameters(params: Any, root_rank: int = 0, process_set: ProcessSet = global_process_set) -> Any:
    """Gives one rank's parameters to all. JAX arrays never change, so the result has to be taken.

    :param params: a tree of arrays: a model's parameters, an optimizer's state; numbers are sent too
    :param root_rank: the global rank whose parameters all receive
    :param process_set: the ranks that take part; all ranks by default
    :returns: the root's tree, with the root's types; shapes must be equal
    """
    leaves, tree = jax.tree_util.tree_flatten_with_path(params)
    names = [f"parameters{jax.tree_util.keystr(path)}" for path, _ in leaves]
    values = [value for _, value in leaves]
    if is_traced(values):
        received = [ops.broadcast(_plain(value), root_rank, name, process_set) for name, value in zip(names, values)]
        return jax.tree_util.tree_unflatten(tree, map(_key_like, values, received))
    if not values:
        return params
    arrays = [numpy.asarray(_plain(value)) for value in values]
    # The root may have read its arrays from a file, or its optimizer has widened them in a step: then they have other
    # types than those of a new model. A name that ends with a space is that of a weak type.
    own = [f"{array.dtype.name}{' ' * is_weak(value)}".encode() for array, value in zip(arrays, values)]
    bytes_of_types = numpy.array(own, "S32").view(numpy.uint8)
    roots = numpy_ops.broadcast(bytes_of_types, root_rank, "parameters' types", process_set).view("S32")
    types = [(jnp.dtype(each.decode().strip()), each.endswith(b" ")) for each in roots.tolist()]
    arrays = [
        array if array.dtype == dtype else numpy.zeros(array.shape, dtype) for array, (dtype, _) in zip(arrays, types)
    ]
    handles = [
        numpy_ops.broadcast_async(_travelling(array), root_rank, name, process_set)
        for name, array in zip(names, arrays)
    ]
    received = [synchronize(handle) for handle in handles]
    return jax.tree_util.tree_unflatten(tree, map(_like, values, arrays, received, types))


def _is_key(value: Any) -> bool:
    return isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def _plain(value: Any) -> Any:
    return jax.random.key_data(value) if _is_key(value) else value


def _travelling(array: Any) -> Any:
    """The array, or its bytes if the runtime does not know its type: a broadcast computes nothing with them."""
    if array.dtype.name in KNOWN_TYPES:
        return array
    return numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8)


def _like(value: Any, sent: Any, received: Any, kind: Tuple[Any, bool]) -> Any:
    dtype, becomes_weak = kind
    if received.dtype != dtype:
        received = received.view(dtype).reshape(sent.shape)
    if isinstance(value, (bool, int, float)):
        return received.item()
    if isinstance(value, numpy.ndarray):
        return received
    return weakly_typed(received) if becomes_weak else _key_like(value, jnp.asarray(received))


def _reduced(obj: Any) -> Any:
    """Arrays of a weak type are made by JAX on the receiver. To compiled programs, those that JAX's own pickles bring
    have a strong type: the receiver would trace a function less often than the root, and count its operations
    differently."""
    if not isinstance(obj, jax.Array) or is_traced([obj]) or not is_weak(obj):
        return NotImplemented
    return weakly_typed, (numpy.asarray(obj),)


ObjectPickler.of_frameworks.append(_reduced)


def _key_like(value: Any, received: Any) -> Any:
    return jax.random.wrap_key_data(received, impl=jax.random.key_impl(value)) if _is_key(value) else received
