"""A hook that is called whenever a backward pass has accumulated a parameter's gradient."""

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
            # Older PyTorch has hooks only on the graph node that accumulates the gradient, and does not keep this
            # node alive, so the hook holds a reference to it.
            self._accumulator = parameter.expand_as(parameter).grad_fn.next_functions[0][0]  # type: ignore[union-attr]
            self._hook = self._accumulator.register_hook(arrived)

    def remove(self) -> None:
        """Removes the hook: ``arrived`` is not called any more."""
        self._hook.remove()
        self._accumulator = None
