"""The operations on tensors, in graphs and outside of them, and the functions that tell a process who it is.

In a graph an operation is a node that TensorFlow runs when its tensor is ready; outside of a graph it is waited for
right away. The runtime knows a tensor by the name of its node, outside of graphs by ``name``.
"""

from __future__ import annotations

import re
from typing import Any, List, Optional, Sequence

from farandole.common import membership
from farandole.common.arguments import kind, listed, require_process_set
from farandole.common.names import *
from farandole.common.names import basics as _basics
from farandole.common.operations import public
from farandole.common.util import get_average_backwards_compatibility_fun, num_rank_is_power_2
from farandole.tensorflow.arguments import splits_of, tensor_of, tensors_of
from farandole.tensorflow.groups import by_type, group_name
from farandole.tensorflow.kernels import raw, tf

handle_average_backwards_compatibility = get_average_backwards_compatibility_fun(_basics)

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]")
_NOT_IN_NODE_NAMES = re.compile(r"[^A-Za-z0-9_.\-/]")


def check_num_rank_power_of_2(num_rank: int) -> bool:
    """Whether a number of ranks is a power of two, as Adasum needs it."""
    return num_rank_is_power_2(num_rank)


def _normalize_name(name: str) -> str:
    """A tensor's name as a part of a node's."""
    return _NOT_IN_NAMES.sub("_", name)


def _set_id(operation: str, name: Optional[str], process_set: ProcessSet) -> int:
    require_process_set(operation, name, process_set)
    if process_set.gone is not None:
        raise tf.errors.InvalidArgumentError(None, None, process_set.gone)
    return -1 if process_set.process_set_id is None else process_set.process_set_id


def _node(kind: str, name: Optional[str], tensors: Sequence[Any], ignore_name_scope: bool) -> dict:
    """The attributes that every collective has; ``name`` may be several, one a line, for the members of a group."""
    if tf.executing_eagerly():
        # There is no node whose name could count, and somebody waits: no other thread need be woken.
        return {"tensor_name": name or "", "blocking": True, "ignore_name_scope": ignore_name_scope}
    node_name = None if name is None or "\n" in name else _NOT_IN_NODE_NAMES.sub("_", name)
    if node_name is None:
        ends = tensors if len(tensors) == 1 else (tensors[0], tensors[-1])
        node_name = "_".join([kind, *(_normalize_name(each.name) for each in ends)])
    return {"name": node_name, "ignore_name_scope": ignore_name_scope}


def _known_rows(outputs: Sequence[Any], tensors: Sequence[Any]) -> List[Any]:
    """Tells graphs what TensorFlow 2.15 does not work out by itself for groups: all but the first extent."""
    if not tf.executing_eagerly():
        for output, tensor in zip(outputs, tensors):
            if tensor.shape.rank:
                output.set_shape([None, *tensor.shape[1:]])
    return list(outputs)


def _allreduce(
    tensor: Any,
    name: Optional[str] = None,
    op: int = Sum,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Reduces a dense tensor over all ranks.

    :returns: a tensor of the same shape and type, the same on every rank
    """
    tensor = tensor_of("allreduce", name, tensor)
    return raw.horovod_allreduce(
        tensor,
        reduce_op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        process_set_id=_set_id("allreduce", name, process_set),
        **_node("HorovodAllreduce", name, [tensor], ignore_name_scope),
    )


def _grouped_allreduce(
    tensors: Sequence[Any],
    name: Optional[str] = None,
    op: int = Sum,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> List[Any]:
    """Reduces dense tensors of one type as one.

    :returns: tensors of the same shapes and type
    """
    tensors = tensors_of("grouped_allreduce", name, tensors)
    outputs = raw.horovod_grouped_allreduce(
        tensors,
        reduce_op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        process_set_id=_set_id("grouped_allreduce", name, process_set),
        **_node("HorovodGroupedAllreduce", name, tensors, ignore_name_scope),
    )
    if not tf.executing_eagerly():
        for output, tensor in zip(outputs, tensors):
            output.set_shape(tensor.shape)
    return list(outputs)


@public
def allgather(
    tensor: Any,
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    tensor = tensor_of("allgather", name, tensor)
    return raw.horovod_allgather(
        tensor,
        process_set_id=_set_id("allgather", name, process_set),
        **_node("HorovodAllgather", name, [tensor], ignore_name_scope),
    )


@public
def grouped_allgather(
    tensors: Sequence[Any],
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> List[Any]:
    tensors = tensors_of("grouped_allgather", name, tensors)
    if not tensors:
        return tensors
    results = list(tensors)
    kinds = by_type(tensors)
    for places in kinds:
        some = [tensors[place] for place in places]
        own = group_name(name, places, len(kinds) > 1)
        outputs = raw.horovod_grouped_allgather(
            some,
            process_set_id=_set_id("grouped_allgather", name, process_set),
            **_node("HorovodGroupedAllgather", own, some, ignore_name_scope),
        )
        for place, output in zip(places, _known_rows(outputs, some)):
            results[place] = output
    return results


@public
def broadcast(
    tensor: Any,
    root_rank: int,
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    tensor = tensor_of("broadcast", name, tensor)
    return raw.horovod_broadcast(
        tensor,
        root_rank=root_rank,
        process_set_id=_set_id("broadcast", name, process_set),
        **_node("HorovodBroadcast", name, [tensor], ignore_name_scope),
    )


@public
def broadcast_(
    variables: Sequence[Any],
    root_rank: int,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> List[Any]:
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
        own = None if name is None else f"{name}_{_normalize_name(name_of(variable))}"
        received.append(variable.assign(broadcast(variable, root_rank, own, process_set=process_set)))
    # Variables of Keras answer nothing when they are assigned to.
    return [tf.convert_to_tensor(each) if new is None else new for each, new in zip(variables, received)]


def _is_resource(variable: Any) -> bool:
    held = getattr(variable, "_value", variable)  # of a variable of Keras 3
    handle = getattr(held, "handle", None)
    return handle is not None and handle.dtype == tf.resource


def name_of(variable: Any) -> str:
    """A variable's name, as unique as its framework makes it: Keras 3 has paths."""
    return str(getattr(variable, "path", None) or variable.name)


@public
def alltoall(
    tensor: Any,
    splits: Any = None,
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    tensor = tensor_of("alltoall", name, tensor)
    output, received = raw.horovod_alltoall(
        tensor,
        splits=splits_of(name, splits),
        process_set_id=_set_id("alltoall", name, process_set),
        **_node("HorovodAlltoall", name, [tensor], ignore_name_scope),
    )
    return output if splits is None else (output, received)


def _reducescatter(
    tensor: Any,
    name: Optional[str] = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Reduces a tensor over all ranks and leaves each with its share of the rows."""
    tensor = tensor_of("reducescatter", name, tensor)
    return raw.horovod_reducescatter(
        tensor,
        reduce_op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        process_set_id=_set_id("reducescatter", name, process_set),
        **_node("HorovodReducescatter", name, [tensor], ignore_name_scope),
    )


def _grouped_reducescatter(
    tensors: Sequence[Any],
    name: Optional[str] = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> List[Any]:
    """Does what ``_reducescatter`` does for several tensors, of one type, as one."""
    tensors = tensors_of("grouped_reducescatter", name, tensors)
    outputs = raw.horovod_grouped_reducescatter(
        tensors,
        reduce_op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        process_set_id=_set_id("grouped_reducescatter", name, process_set),
        **_node("HorovodGroupedReducescatter", name, tensors, ignore_name_scope),
    )
    return _known_rows(outputs, tensors)


@public
def join() -> Any:
    return raw.horovod_join(blocking=tf.executing_eagerly())


@public
def barrier(process_set: ProcessSet = global_process_set) -> Any:
    return raw.horovod_barrier(process_set_id=_set_id("barrier", None, process_set), blocking=tf.executing_eagerly())


@public
def size_op(process_set_id: int = 0, name: Optional[str] = None) -> Any:
    return raw.horovod_size(process_set_id=process_set_id, name=name)


@public
def process_set_included_op(process_set_id: int = 0, name: Optional[str] = None) -> Any:
    return raw.horovod_process_set_included(process_set_id=process_set_id, name=name)


@public
def local_size_op(name: Optional[str] = None) -> Any:
    return raw.horovod_local_size(name=name)


@public
def rank_op(name: Optional[str] = None) -> Any:
    return raw.horovod_rank(name=name)


@public
def local_rank_op(name: Optional[str] = None) -> Any:
    return raw.horovod_local_rank(name=name)


def divisor(process_set: ProcessSet, dtype: Any) -> Any:
    """What a sum is divided by for the mean: the number of members, when the graph runs where it may change."""
    if membership.is_elastic():
        return tf.cast(size_op(_set_id("allreduce", None, process_set)), dtype)
    return tf.cast(process_set.size(), dtype)
