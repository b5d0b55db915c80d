"""An optimizer whose ranks step on their own, one parameter at a time, and combine how far they went with Adasum.

Adasum weighs vectors by their lengths and directions, so it wants what a rank would really change: the delta of a
parameter after the local step, with learning rate, momentum and the like applied.
"""

from __future__ import annotations

from typing import Any, Callable, List, NoReturn, Optional, Sequence

import torch

from farandole.torch.gradient_transfers import Transfer
from farandole.torch.reducing_optimizer import _DistributedOptimizer


class _DistributedAdasumOptimizer(_DistributedOptimizer):
    """What ``DistributedOptimizer(op=Adasum)`` puts in front of the class of the optimizer that it wraps."""

    def _send(self, indices: Sequence[int]) -> List[Transfer]:
        return [self._send_step(index) for index in indices]

    def _send_step(self, index: int) -> Transfer:
        """Steps one parameter and takes the step back: it is added when all ranks' steps are combined."""
        parameter = self._parameters[index]
        before = parameter.detach().clone()
        self._step_one(parameter)
        with torch.no_grad():
            delta = (parameter - before).contiguous()
            parameter.copy_(before)
        return self._transfers.start_instead(index, delta, parameter.add_)

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

    def synchronize(self) -> None:
        """Does nothing: the parameters change in ``step()`` only."""

    def skip_synchronize(self) -> NoReturn:
        """``AssertionError``: gradients are not reduced, so there is nothing to skip."""
        raise AssertionError("Skipping synchronization is not supported when using Adasum optimizer.")

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Waits for the deltas of all ranks, and adds them."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._start_overdue()
        self._wait()
        return loss

    step.hooked = True  # type: ignore[attr-defined]
