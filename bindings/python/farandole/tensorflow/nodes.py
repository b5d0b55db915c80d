"""Makes the nodes of collectives: their names, their attributes and their inputs."""

from __future__ import annotations

import re
from typing import Any, List, Optional, Sequence

from farandole.common.arguments import require_process_set
from farandole.common.process_sets import NOT_REGISTERED, ProcessSet
from farandole.tensorflow.arguments import tensor_of, tensors_of
from farandole.tensorflow.errors import UnknownSetError
from farandole.tensorflow.groups import by_type, group_name
from farandole.tensorflow.kernels import raw, tf

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]")
_NOT_IN_NODE_NAMES = re.compile(r"[^A-Za-z0-9_.\-/]")


def normalize_name(name: str) -> str:
    """A tensor's name in a form that may be part of a node's name."""
    return _NOT_IN_NAMES.sub("_", name)


def set_id(operation: str, name: Optional[str], process_set: ProcessSet) -> int:
    """The id of a set for the kernels; ``UnknownSetError`` for a set that is not registered, also in graphs."""
    require_process_set(operation, name, process_set)
    if process_set.gone is not None:
        raise UnknownSetError(None, None, process_set.gone)
    if process_set.process_set_id is None:
        raise UnknownSetError(None, None, NOT_REGISTERED)
    return process_set.process_set_id


def run(
    operation: str,
    name: Optional[str],
    tensor: Any,
    process_set: ProcessSet,
    ignore_name_scope: bool,
    **attributes: Any,
) -> Any:
    """Adds the node of an operation to the graph; outside of graphs, runs the operation and returns its result."""
    return _run(operation, name, tensor_of(operation, name, tensor), process_set, ignore_name_scope, attributes)


def run_group(
    operation: str,
    name: Optional[str],
    tensors: Any,
    process_set: ProcessSet,
    ignore_name_scope: bool,
    numbers: Optional[Sequence[int]] = None,
    **attributes: Any,
) -> List[Any]:
    """The same for a group of tensors, with one node for each element type in the group.

    :param name: the name of the group, or one line for each of the caller's tensors with the name that it has also
        outside of groups
    :param numbers: the positions of these tensors among the caller's, for names
    """
    tensors = tensors_of(operation, name, tensors)
    numbers = numbers or range(len(tensors))
    results = list(tensors)
    kinds = by_type(tensors)
    for places in kinds:
        some = [tensors[place] for place in places]
        own = group_name(name, [numbers[place] for place in places], len(kinds) > 1)
        if len(places) == 1 and name is not None and "\n" in name:
            single = operation.replace("grouped_", "")
            outputs = [_run(single, own, some[0], process_set, ignore_name_scope, attributes)]
        else:
            outputs = _run(operation, own, some, process_set, ignore_name_scope, attributes)
        for place, output in zip(places, outputs):
            results[place] = output
            shape = tensors[place].shape
            if operation != "grouped_allreduce" and shape.rank:
                shape = [None, *shape[1:]]
            if not tf.executing_eagerly():  # graphs of TensorFlow 2.15 do not infer the shape
                output.set_shape(shape)
    return results


def _run(
    operation: str, name: Optional[str], given: Any, process_set: ProcessSet, ignore_name_scope: bool, attributes: dict
) -> Any:
    taken = {
        **attributes,
        "process_set_id": set_id(operation, name, process_set),
        "ignore_name_scope": ignore_name_scope,
    }
    if tf.executing_eagerly():
        # An eager call has no node name, so the kernel takes `name`. The calling thread waits in the kernel, so no
        # other thread needs to be woken.
        taken.update(tensor_name=name or "", blocking=True)
    else:
        if name is not None and "\n" in name:  # the kernel puts each line into the scope of the node
            taken["tensor_name"] = name
            name = name.split("\n")[0]
        taken["name"] = _node_name(operation, name, given if isinstance(given, list) else [given])
    return getattr(raw, f"horovod_{operation}")(given, **taken)


def _node_name(operation: str, name: Optional[str], tensors: Sequence[Any]) -> str:
    """The name of a node: the given one, or one after its tensors."""
    if name is not None:
        return _NOT_IN_NODE_NAMES.sub("_", name)
    ends = tensors if len(tensors) == 1 else (tensors[0], tensors[-1])
    kind = "Horovod" + operation.title().replace("_", "")
    return "_".join([kind, *(normalize_name(each.name) for each in ends)])
