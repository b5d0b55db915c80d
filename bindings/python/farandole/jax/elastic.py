"""Elastic training for JAX: members may come and go between the commits of a state."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any, Callable, Iterator, TypeVar

import jax
import numpy

from farandole.common import kernels
from farandole.common.basics import HorovodBasics
from farandole.common.elastic import ObjectState, State, run_fn
from farandole.common.elastic.loop import restart
from farandole.common.exceptions import HorovodInternalError
from farandole.common.objects import allgather_object, broadcast_object
from farandole.jax.functions import broadcast_parameters

if TYPE_CHECKING:
    from typing_extensions import Concatenate

    from farandole.common.elastic.loop import Rest, StateType

Result = TypeVar("Result")

__all__ = ["JaxState", "ObjectState", "State", "run"]

_basics = HorovodBasics(__file__, "mpi_lib_v2")


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Errors of operations in programs get the classes of the interface, which the elastic loop knows."""
    try:
        yield
    except HorovodInternalError:
        raise
    except (jax.errors.JaxRuntimeError, ValueError) as problem:
        known = kernels.error_in(str(problem))
        if known is None:
            raise
        raise known from problem


def run(func: Callable[Concatenate[StateType, Rest], Result]) -> Callable[Concatenate[StateType, Rest], Result]:
    """Decorates a training function that takes a state first. It starts from rank 0's state; when members have
    changed, training goes on with the members of the new generation."""

    @functools.wraps(func)
    def train(state: StateType, *args: Rest.args, **kwargs: Rest.kwargs) -> Result:
        with translated():
            result = func(state, *args, **kwargs)
            # Programs whose results were not read may fail as well.
            jax.block_until_ready([each for each in jax.live_arrays() if not each.is_deleted()])
            return result

    def reset() -> None:
        restart()
        # Compiled programs contain the job's size and the ranks' places.
        jax.clear_caches()

    return run_fn(train, reset)


class JaxState(ObjectState):
    """State that each keyword names: trees of arrays (parameters, an optimizer's state), and any other value.

    Arrays are copied, because a program to which a script donates one deletes it. Values that are other trees on some
    ranks, such as None before a first evaluation, are sent as objects.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(bcast_object=broadcast_object, get_rank=_basics.rank, **kwargs)

    def sync(self) -> None:
        """Gives the saved values of rank 0 to all."""
        with translated():
            own = {name: _shapes(value) for name, value in self._saved_state.items()}
            trees = allgather_object(own, "jax.state")
            shared = [name for name in own if own[name] and all(each.get(name) == own[name] for each in trees)]
            received = broadcast_parameters({name: self._saved_state[name] for name in shared}, 0)
        rest = {name: value for name, value in self._saved_state.items() if name not in received}
        self._saved_state = {**self._bcast_object(rest), **received}
        self._set_attrs()


def _shapes(value: Any) -> str:
    """A tree of arrays in which each is its shape; empty for any other value."""
    is_tree = any(isinstance(each, jax.Array) for each in jax.tree_util.tree_leaves(value))
    return str(jax.tree.map(numpy.shape, value)) if is_tree else ""
