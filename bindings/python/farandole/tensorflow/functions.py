"""Broadcasts and gathers of variables and of Python objects."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence

from farandole._keras.variables import is_random_state
from farandole.common import objects
from farandole.common.operations import public
from farandole.common.process_sets import ProcessSet, global_process_set
from farandole.tensorflow import mpi_ops
from farandole.tensorflow.kernels import tf


@public
def broadcast_variables(
    variables: Sequence[Any], root_rank: int, process_set: ProcessSet = global_process_set, inplace: bool = False
) -> Any:
    # Ranks match variables by position, because their names may differ between ranks. Every variable is always
    # assigned to, so `inplace` has no effect.
    # A list of nothing but states of generators asks for these.
    variables = [each for each in variables if not is_random_state(each)] or list(variables)
    done = []
    for place, variable in enumerate(variables):
        name = f"broadcast_variables_{place}of{len(variables)}"
        done.append(variable.assign(mpi_ops.broadcast(variable, root_rank, name, process_set=process_set)))
    if tf.executing_eagerly():
        return None
    # assign() of a Keras variable returns None; inside of functions TensorFlow orders these assignments itself.
    return tf.group(*[each for each in done if each is not None])


# Objects need no graph, so `session` is accepted and ignored.


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
