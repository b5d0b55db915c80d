"""Gives parameters to all ranks, and arrays in objects."""

from __future__ import annotations

from typing import Any

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
    :returns: the root's tree; outside of programs, arrays and numbers of Python have the types of the root's
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
    # types than those of a new model.
    own = [f"{_described(array.dtype)}{' weak' * is_weak(value)}" for array, value in zip(arrays, values)]
    sent = numpy.array([each.encode() for each in own], "S32").view(numpy.uint8).reshape(len(own), 32)
    rows = numpy_ops.broadcast(sent, root_rank, "types of parameters", process_set)
    roots = [each.decode() for each in rows.view("S32").ravel().tolist()]
    arrays = [array if kind == each else _retyped(array, kind) for array, each, kind in zip(arrays, own, roots)]
    handles = [
        numpy_ops.broadcast_async(_travelling(array), root_rank, name, process_set)
        for name, array in zip(names, arrays)
    ]
    received = [synchronize(handle) for handle in handles]
    return jax.tree_util.tree_unflatten(tree, map(_like, values, arrays, received, roots))


def _described(dtype: Any) -> str:
    """A type in a few characters: the name of one that JAX adds to NumPy's."""
    return dtype.name if dtype.isbuiltin == 2 else dtype.str


def _retyped(array: Any, kind: str) -> Any:
    """Room for the root's array. If this rank does not know its type, all ranks hear that types differ."""
    try:
        return numpy.zeros(array.shape, jnp.dtype(kind.removesuffix(" weak")))
    except TypeError:
        return array


def _is_key(value: Any) -> bool:
    return isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def _plain(value: Any) -> Any:
    return jax.random.key_data(value) if _is_key(value) else value


def _travelling(array: Any) -> Any:
    """The array, or its bytes if the runtime does not know its type: a broadcast computes nothing with them."""
    if array.dtype.name in KNOWN_TYPES:
        return array
    return numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8)


def _like(value: Any, sent: Any, received: Any, kind: str) -> Any:
    if received.dtype != sent.dtype:
        received = received.view(sent.dtype).reshape(sent.shape)
    if isinstance(value, numpy.generic):
        return received[()]
    if isinstance(value, (bool, int, float)):
        number = received.item()
        return number if type(value) in (bool, int, float) else type(value)(number)
    if isinstance(value, numpy.ndarray):
        return received
    return weakly_typed(received) if kind.endswith(" weak") else _key_like(value, jnp.asarray(received))


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
