"""Elastic training without a framework: arrays and plain values are the state."""

from __future__ import annotations

from typing import Any

from farandole.common import job
from farandole.common.elastic import ObjectState, State, run
from farandole.common.objects import broadcast_object

__all__ = ["NumPyState", "ObjectState", "State", "run"]


class NumPyState(ObjectState):
    """State of arrays and plain Python values: each keyword becomes an attribute.

    Arrays, also those in lists and dictionaries, are copied when they are saved and when they are restored, so that
    changes in place can be undone.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(bcast_object=broadcast_object, get_rank=lambda: job.where().rank, **kwargs)
