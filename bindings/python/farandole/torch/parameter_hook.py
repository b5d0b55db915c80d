"""A call of ours whenever a backward pass has added to a parameter's gradient."""

from __future__ import annotations

from typing import Any, Callable

import torch


class ParameterHook:
    """Calls ``arrived`` after each backward pass that reaches ``parameter``, until it is removed."""

    def __init__(self, parameter: torch.Tensor, arrived: Callable[..., None]) -> None:
        self._accumulator: Any = None
        if hasattr(parameter, "register_post_accumulate_grad_hook"):
            self._hook = parameter.register_post_accumulate_grad_hook(arrived)
        else:
            # Older PyTorch has hooks on the node of the graph that adds, and keeps the node only as long as we do.
            self._accumulator = parameter.expand_as(parameter).grad_fn.next_functions[0][0]  # type: ignore[union-attr]
            self._hook = self._accumulator.register_hook(arrived)

    def remove(self) -> None:
        """From now on nothing is called."""
        self._hook.remove()
        self._accumulator = None
