"""Gives variables and any Python object to all ranks."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence

from farandole.common import objects
from farandole.common.operations import public
from farandole.common.process_sets import ProcessSet, global_process_set
from farandole.tensorflow import mpi_ops
from farandole.tensorflow.kernels import tf


@public
def broadcast_variables(
    variables: Sequence[Any], root_rank: int, process_set: ProcessSet = global_process_set, inplace: bool = False
) -> Any:
    # Matched by place: ranks may have given their variables different names. Every variable is assigned to anyway, so
    # `inplace` changes nothing.
    variables = list(variables)
    done = []
    for place, variable in enumerate(variables):
        name = f"broadcast_variables_{place}of{len(variables)}"
        received = mpi_ops.broadcast(variable, root_rank, name, process_set=process_set)
        done.append(variable.assign(received))
    if tf.executing_eagerly():
        return None
    # Variables of Keras answer nothing when they are assigned to; inside of functions TensorFlow sees to them.
    return tf.group(*[each for each in done if each is not None])


# Objects need no graph, so a session is accepted and left alone.


@public
def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    session: Any = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    return objects.broadcast_object(obj, root_rank, name, process_set)


@public
def broadcast_object_fn(
    root_rank: int = 0,
    session: Any = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Callable[[Any], Any]:
    return lambda obj: objects.broadcast_object(obj, root_rank, name, process_set)


@public
def allgather_object(
    obj: Any, session: Any = None, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> List[Any]:
    return objects.allgather_object(obj, name, process_set)
