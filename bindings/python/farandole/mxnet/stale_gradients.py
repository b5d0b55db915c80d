"""Gradients that are stale on some ranks only: their parameters were not used there since the last update."""

from __future__ import annotations

from typing import Any, List, Sequence

import mxnet as mx

from farandole.common.basics import HorovodBasics
from farandole.common.process_sets import ProcessSet
from farandole.common.reduction import takes_part
from farandole.mxnet.mpi_ops import allreduce_


class StaleGradients:
    """Makes the ranks of a trainer update the same parameters.

    A stale gradient is the average of an earlier step, or left over from passes that add up. Where another rank has a
    fresh one, it counts as fresh here, too, until the update.

    :param name: of the operation by which ranks agree
    """

    def __init__(self, name: str, process_set: ProcessSet) -> None:
        self._name = name
        self._process_set = process_set
        self._used_elsewhere: List[Any] = []

    def agree(self, params: Sequence[Any]) -> None:
        """Collective. Waits until all ranks have said which gradients are fresh, and sets those to zero that are fresh
        on other ranks only."""
        trained = [each for each in params if each.grad_req != "null"]
        if not trained or not takes_part(self._process_set):
            return
        fresh = [each.list_data()[0]._fresh_grad for each in trained]
        anywhere = mx.nd.array(fresh, dtype="uint8")
        allreduce_(anywhere, name=self._name, op=HorovodBasics.Max, process_set=self._process_set)
        for parameter, is_fresh, is_fresh_anywhere in zip(trained, fresh, anywhere.asnumpy()):
            if is_fresh_anywhere and not is_fresh:
                if parameter.grad_req == "write":
                    _clear(parameter.list_grad())
                self._used_elsewhere.append(parameter.list_data()[0])
                self._used_elsewhere[-1]._fresh_grad = True

    def end_step(self) -> None:
        """Called after the update, also if a loss scaler has skipped it: these gradients are stale again."""
        for array in self._used_elsewhere:
            array._fresh_grad = False
        self._used_elsewhere.clear()


def _clear(gradients: List[Any]) -> None:
    """Sets them to zero. ``Parameter.zero_grad`` refuses arrays of ``mx.np``."""
    for each in gradients:
        each.as_nd_ndarray()[:] = 0
