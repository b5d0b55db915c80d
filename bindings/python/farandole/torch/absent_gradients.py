"""Reductions of gradients that this rank does not have, because its batch has not used their parameters."""

from __future__ import annotations

from typing import Any, Callable, Optional

import torch

from farandole.common.process_sets import ProcessSet
from farandole.torch.exchange import Rounds
from farandole.torch.ops.sparse import start_no_values, summed


class AbsentReduction(Rounds):
    """The reduction of one such gradient. Its result is what the other ranks make of it: a dense gradient, a sparse
    one, or None if no rank has used the parameter.

    If the others reduce a sparse gradient, the first round has gathered its indices. The second one then gathers the
    values, to which this rank contributes no rows.

    :param handle: the native handle of the operation in which this rank is absent
    :param dense: waits for this operation, and returns the dense gradient
    """

    def __init__(
        self,
        parameter: torch.Tensor,
        name: str,
        op: int,
        process_set: ProcessSet,
        handle: Any,
        dense: Callable[[], torch.Tensor],
    ) -> None:
        self._parameter = parameter
        self._name = name
        self._op = op
        self._process_set = process_set
        self._handle = handle
        self._dense = dense
        self._places: Optional[torch.Tensor] = None
        self._values: Any = None

    def advance(self) -> bool:
        """Waits for this round and starts the next; returns False if there is none."""
        if self._values is not None:
            self._values.wait()
            return False
        self._handle.wait()
        if not self._handle.has_rows:
            return False
        self._places = torch.utils.dlpack.from_dlpack(self._handle.dlpack())
        self._values = start_no_values(self._parameter, self._places, self._name, self._process_set)
        return True

    def finish(self) -> Optional[torch.Tensor]:
        """Waits for all rounds, and returns the gradient."""
        self.wait()
        if self._places is not None:
            places = self._places.to(self._parameter.device)
            return summed(self._parameter, places, self._values.finish(), self._op, self._process_set)
        return self._dense() if self._handle.has_result else None
