"""The operations on tensors, inside and outside of graphs, and the functions that describe this process and its job.

In a graph an operation is a node that TensorFlow runs when its tensor is ready. Outside of a graph the call waits for
the operation. Ranks match tensors by the name of the node in graphs, and by ``name`` outside.
"""

from __future__ import annotations

from typing import Any, Optional

from farandole.common import membership
from farandole.common.arguments import kind, listed
from farandole.common.names import *
from farandole.common.names import basics as _basics
from farandole.common.util import get_average_backwards_compatibility_fun, num_rank_is_power_2
from farandole.common.wrappers import public_in
from farandole.tensorflow.arguments import splits_of
from farandole.tensorflow.kernels import raw, tf
from farandole.tensorflow.nodes import normalize_name, run, run_group, set_id

public = public_in("tensorflow")
_normalize_name = normalize_name  # the name that scripts use
handle_average_backwards_compatibility = get_average_backwards_compatibility_fun(_basics)


def check_num_rank_power_of_2(num_rank: int) -> bool:
    """Whether a number of ranks is a power of two, as Adasum needs it."""
    return num_rank_is_power_2(num_rank)


@public
def _allreduce(tensor, name, op, prescale_factor, postscale_factor, ignore_name_scope, process_set):
    """Reduces a dense tensor over all ranks.

    :returns: a tensor of the same shape and type, the same on every rank
    """
    how = {"reduce_op": op, "prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    return run("allreduce", name, tensor, process_set, ignore_name_scope, **how)


@public
def allgather(tensor, name, ignore_name_scope, process_set):
    return run("allgather", name, tensor, process_set, ignore_name_scope)


@public
def grouped_allgather(tensors, name, ignore_name_scope, process_set):
    return run_group("grouped_allgather", name, tensors, process_set, ignore_name_scope)


@public
def broadcast(tensor, root_rank, name, ignore_name_scope, process_set):
    return run("broadcast", name, tensor, process_set, ignore_name_scope, root_rank=root_rank)


@public
def broadcast_(variables, root_rank, name, process_set):
    variables = list(listed("broadcast_", name, variables))
    for each in variables:
        if not hasattr(each, "assign"):
            raise TypeError(
                f"broadcast_ takes variables, which it writes to, not {kind(each)}; call broadcast for a tensor"
            )
    if len({_is_resource(each) for each in variables}) > 1:
        raise ValueError("broadcast_ takes either resource variables or reference variables, not both at once")
    received = []
    for variable in variables:
        own = None if name is None else f"{name}_{normalize_name(name_of(variable))}"
        received.append(variable.assign(values_of_root(variable, root_rank, own, process_set)))
    # assign() of a Keras variable returns None.
    return [tf.convert_to_tensor(each) if new is None else new for each, new in zip(variables, received)]


def values_of_root(variable: Any, root_rank: int, name: Optional[str], process_set: ProcessSet) -> Any:
    """The root's values of a variable of any type. Those that no operation moves travel as bytes, or in a wider type
    that holds them exactly."""
    tensor = tf.convert_to_tensor(variable)
    dtype = tensor.dtype.base_dtype
    if dtype == tf.string:
        return _texts_of_root(tensor, root_rank, name, process_set)
    if dtype in _AS_BYTES:
        moved = broadcast(tf.bitcast(tensor, tf.uint8), root_rank, name, process_set=process_set)
        return tf.bitcast(moved, dtype)
    if dtype in _WIDER:
        moved = broadcast(tf.cast(tensor, _WIDER[dtype]), root_rank, name, process_set=process_set)
        return tf.cast(moved, dtype)
    return broadcast(tensor, root_rank, name, process_set=process_set)


_AS_BYTES = frozenset(
    [tf.complex64, tf.complex128, tf.uint32, tf.uint64, tf.qint8, tf.qint16, tf.qint32, tf.quint8, tf.quint16]
)
_WIDER = {
    getattr(tf.dtypes.experimental, name): wider
    for name, wider in {
        "float8_e4m3fn": tf.float32,
        "float8_e5m2": tf.float32,
        "int4": tf.int8,
        "uint4": tf.uint8,
    }.items()
    if hasattr(tf.dtypes.experimental, name)
}


def _texts_of_root(tensor: Any, root_rank: int, name: Optional[str], process_set: ProcessSet) -> Any:
    """The number of bytes differs between ranks, so they are gathered, and all ranks but the root give none."""
    own = tf.io.decode_raw(tf.io.serialize_tensor(tensor), tf.uint8)
    given = own[: tf.where(tf.equal(rank_op(), root_rank), tf.size(own), 0)]
    gathered = allgather(given, name, process_set=process_set)
    letters = tf.gather(tf.constant([bytes([number]) for number in range(256)]), tf.cast(gathered, tf.int32))
    return tf.ensure_shape(tf.io.parse_tensor(tf.strings.reduce_join(letters), tf.string), tensor.shape)


def _is_resource(variable: Any) -> bool:
    held = getattr(variable, "_value", variable)  # of a variable of Keras 3
    handle = getattr(held, "handle", None)
    return handle is not None and handle.dtype == tf.resource


def name_of(variable: Any) -> str:
    """The most specific name that the framework gives a variable: its path in Keras 3. Empty for a tensor outside of
    graphs, which has no name."""
    if tf.is_tensor(variable) and not hasattr(variable, "assign") and tf.executing_eagerly():
        return ""
    return str(getattr(variable, "path", None) or variable.name)


@public
def alltoall(tensor, splits, name, ignore_name_scope, process_set):
    output, received = run("alltoall", name, tensor, process_set, ignore_name_scope, splits=splits_of(name, splits))
    return output if splits is None else (output, received)


@public
def join():
    return raw.horovod_join(blocking=tf.executing_eagerly())


@public
def barrier(process_set):
    return raw.horovod_barrier(process_set_id=set_id("barrier", None, process_set), blocking=tf.executing_eagerly())


@public
def size_op(process_set_id, name):
    return raw.horovod_size(process_set_id=process_set_id, name=name)


@public
def process_set_included_op(process_set_id, name):
    return raw.horovod_process_set_included(process_set_id=process_set_id, name=name)


@public
def local_size_op(name):
    return raw.horovod_local_size(name=name)


@public
def rank_op(name):
    return raw.horovod_rank(name=name)


@public
def local_rank_op(name):
    return raw.horovod_local_rank(name=name)


def divisor(process_set: ProcessSet, dtype: Any) -> Any:
    """The number of members of a set, which divides a sum to give the mean. In an elastic job the number may change,
    so it is read when the graph runs."""
    if membership.is_elastic():
        return tf.cast(size_op(set_id("allreduce", None, process_set)), dtype)
    return tf.cast(process_set.size(), dtype)
