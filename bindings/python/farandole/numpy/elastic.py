"""Elastic training without a framework: arrays and plain values are the state."""

from __future__ import annotations

from typing import Any, Callable

from farandole.common import job
from farandole.common.basics import HorovodBasics
from farandole.common.elastic import ObjectState, State, run_fn
from farandole.common.objects import broadcast_object

__all__ = ["NumPyState", "ObjectState", "State", "run"]

_basics = HorovodBasics(__file__)


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a training function that takes a state first: it starts from rank 0's state, and goes on with those
    that are there when members have changed."""

    def reset() -> None:
        _basics.shutdown()
        _basics.init()

    return run_fn(func, reset)


class NumPyState(ObjectState):
    """State of arrays and plain Python values: each keyword becomes an attribute.

    Arrays, also those in lists and dictionaries, are copied when they are saved and when they are put back, so that
    what was done to them in place can be taken back.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(bcast_object=broadcast_object, get_rank=lambda: job.where().rank, **kwargs)
