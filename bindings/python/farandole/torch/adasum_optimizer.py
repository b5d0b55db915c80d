"""An optimizer whose ranks step locally, one parameter at a time, and combine the resulting deltas with Adasum.

Adasum weighs vectors by their lengths and directions. It is therefore applied to the delta of a parameter after the
local step, which includes learning rate, momentum and the like, and not to the gradient.
"""

from __future__ import annotations

import weakref
from typing import Any, Callable, List, NoReturn, Optional, Sequence

import torch

from farandole.torch.gradient_transfers import GradientTransfers, Transfer
from farandole.torch.reducing_optimizer import _DistributedOptimizer, count_step, mark_step


class _DistributedAdasumOptimizer(_DistributedOptimizer):
    """The base class that ``DistributedOptimizer(op=Adasum)`` puts before the class of the wrapped optimizer."""

    _gradients_change_nothing = False

    def _sender(self, transfers: GradientTransfers) -> Callable[[Sequence[int]], List[Transfer]]:
        optimizer = weakref.ref(self)

        def send(indices: Sequence[int]) -> List[Transfer]:
            alive = optimizer()
            assert alive is not None
            return [alive._send_step(index, transfers) for index in indices]

        return send

    def _send_step(self, index: int, transfers: GradientTransfers) -> Transfer:
        """Steps one parameter, restores its old value and sends the delta. The combined delta of all ranks is added
        to the parameter when it arrives."""
        parameter = self._parameters.tensors[index]
        before = parameter.detach().clone()
        self._step_one(parameter)
        with torch.no_grad():
            delta = (parameter - before).contiguous()
            parameter.copy_(before)
        return transfers.start_instead(index, delta, parameter.add_)

    def _step_one(self, parameter: torch.Tensor) -> None:
        groups = self.param_groups
        group = next(each for each in groups if any(one is parameter for one in each["params"]))
        parameters = group["params"]
        group["params"] = [parameter]
        self.param_groups = [group]
        try:
            self.step_alone()
        finally:
            group["params"] = parameters
            self.param_groups = groups

    @property
    def _step_supports_amp_scaling(self) -> NoReturn:
        """Raises ``ValueError``. A ``torch.amp.GradScaler`` reads it before it calls ``step()``, which is too late: the
        local steps have used gradients that are scaled, and that may have overflowed on some ranks only."""
        raise ValueError(
            "op=Adasum steps in the backward pass, before a GradScaler unscales or Lightning clips the gradients; "
            "train in bfloat16 without a scaler, clip in a hook of each parameter, or pass op=Average"
        )

    def synchronize(self) -> None:
        """Does nothing: the parameters change in ``step()`` only."""

    def skip_synchronize(self) -> NoReturn:
        """Raises ``AssertionError``: gradients are not reduced, so there is no synchronization to skip."""
        raise AssertionError("Skipping synchronization is not supported when using Adasum optimizer.")

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Waits for the combined deltas, and adds them to the parameters."""
        count_step(self)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._reductions.start_overdue()
        self._reductions.wait()
        return loss

    mark_step(step)
