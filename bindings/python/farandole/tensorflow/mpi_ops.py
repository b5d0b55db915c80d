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
from farandole.tensorflow.arguments import splits_of, tensor_of, tensors_of
from farandole.tensorflow.kernels import raw, tf
from farandole.tensorflow.moved_types import known, known_rows, lengths_and_bytes, restored, texts_of
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
    tensor = tensor_of("allgather", name, tensor, may_be_texts=True)
    options = (process_set, ignore_name_scope)
    if tensor.dtype.base_dtype == tf.string:
        lengths, content = lengths_and_bytes(tensor)
        lengths = run("allgather", name, lengths, *options)
        return texts_of(lengths, run("allgather", _of_bytes(name), content, *options))
    return restored(run("allgather", name, known_rows(tensor), *options), tensor.dtype)


@public
def grouped_allgather(tensors, name, ignore_name_scope, process_set):
    tensors = tensors_of("grouped_allgather", name, tensors)
    moved = run_group("grouped_allgather", name, [*map(known_rows, tensors)], process_set, ignore_name_scope)
    return [restored(each, tensor.dtype) for each, tensor in zip(moved, tensors)]


@public
def broadcast(tensor, root_rank, name, ignore_name_scope, process_set):
    tensor = tensor_of("broadcast", name, tensor, may_be_texts=True)
    options = (process_set, ignore_name_scope)
    if tensor.dtype.base_dtype == tf.string:
        lengths, content = lengths_and_bytes(tensor)
        lengths = run("broadcast", name, lengths, *options, root_rank=root_rank)
        # The number of bytes differs between ranks, so they are gathered, and all ranks but the root give none.
        given = content[: tf.where(tf.equal(rank_op(), root_rank), tf.size(content), 0)]
        texts = texts_of(lengths, run("allgather", _of_bytes(name), given, *options))
        return tf.ensure_shape(texts, tensor.shape)
    return restored(run("broadcast", name, known(tensor), *options, root_rank=root_rank), tensor.dtype)


def _of_bytes(name: Optional[str]) -> Optional[str]:
    return None if name is None else f"{name}.bytes"


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
        received.append(variable.assign(broadcast(variable, root_rank, own, process_set=process_set)))
    # assign() of a Keras variable returns None.
    return [tf.convert_to_tensor(each) if new is None else new for each, new in zip(variables, received)]


def _is_resource(variable: Any) -> bool:
    held = getattr(variable, "_value", variable)  # of a variable of Keras 3
    handle = getattr(held, "handle", None)
    return handle is not None and handle.dtype == tf.resource


def name_of(variable: Any) -> str:
    """The most specific name that the framework gives a variable: its path in Keras 3. Empty for a tensor outside of
    graphs, which has no name."""
    if tf.is_tensor(variable) and not hasattr(variable, "assign") and tf.executing_eagerly():
        return ""
    return str(getattr(variable, "path", None) or getattr(variable, "name", ""))


@public
def alltoall(tensor, splits, name, ignore_name_scope, process_set):
    tensor = tensor_of("alltoall", name, tensor)
    counts = splits_of(name, splits)
    moved, received = run("alltoall", name, known_rows(tensor), process_set, ignore_name_scope, splits=counts)
    output = restored(moved, tensor.dtype)
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
    """The number of members of a set, which divides a sum to give the mean; 1 for a process outside of the set. In an
    elastic job the number may change, so it is read when the graph runs."""
    if membership.is_elastic():
        number = set_id("allreduce", None, process_set)
        is_included = process_set_included_op(number) > 0
        return tf.cast(tf.where(is_included, size_op(number), 1), dtype)
    return tf.cast(process_set.size() if process_set.included() else 1, dtype)
