"""What the nodes of collectives are called, and the attributes that they have."""

from __future__ import annotations

import re
from typing import Any, List, Optional, Sequence

from farandole.common.arguments import require_process_set
from farandole.common.process_sets import ProcessSet
from farandole.tensorflow.kernels import tf

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]")
_NOT_IN_NODE_NAMES = re.compile(r"[^A-Za-z0-9_.\-/]")


def normalize_name(name: str) -> str:
    """A tensor's name as a part of a node's."""
    return _NOT_IN_NAMES.sub("_", name)


def set_id(operation: str, name: Optional[str], process_set: ProcessSet) -> int:
    """The number of a set for the kernels, which refuse -1: a set that is not registered."""
    require_process_set(operation, name, process_set)
    if process_set.gone is not None:
        raise tf.errors.InvalidArgumentError(None, None, process_set.gone)
    return -1 if process_set.process_set_id is None else process_set.process_set_id


def node(kind: str, name: Optional[str], tensors: Sequence[Any], ignore_name_scope: bool) -> dict:
    """The attributes that every collective has; ``name`` may be several, one a line, for the members of a group."""
    if tf.executing_eagerly():
        # There is no node whose name could count, and somebody waits: no other thread need be woken.
        return {"tensor_name": name or "", "blocking": True, "ignore_name_scope": ignore_name_scope}
    node_name = None if name is None or "\n" in name else _NOT_IN_NODE_NAMES.sub("_", name)
    if node_name is None:
        ends = tensors if len(tensors) == 1 else (tensors[0], tensors[-1])
        node_name = "_".join([kind, *(normalize_name(each.name) for each in ends)])
    return {"name": node_name, "ignore_name_scope": ignore_name_scope}


def known_rows(outputs: Sequence[Any], tensors: Sequence[Any]) -> List[Any]:
    """Tells graphs what TensorFlow 2.15 does not work out by itself for groups: all but the first extent."""
    if not tf.executing_eagerly():
        for output, tensor in zip(outputs, tensors):
            if tensor.shape.rank:
                output.set_shape([None, *tensor.shape[1:]])
    return list(outputs)


def reduction(
    operation: str,
    kind: str,
    name: Optional[str],
    tensors: Sequence[Any],
    op: int,
    prescale_factor: float,
    postscale_factor: float,
    ignore_name_scope: bool,
    process_set: ProcessSet,
) -> dict:
    """The attributes that every reduction has."""
    return {
        "reduce_op": op,
        "prescale_factor": prescale_factor,
        "postscale_factor": postscale_factor,
        "process_set_id": set_id(operation, name, process_set),
        **node(kind, name, tensors, ignore_name_scope),
    }
