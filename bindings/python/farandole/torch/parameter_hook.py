"""A hook that is called whenever a backward pass has accumulated a parameter's gradient."""

from __future__ import annotations

import sys
import threading
import types
from typing import Any, Callable, Optional

import torch


class ParameterHook:
    """Calls ``arrived`` after each backward pass that reaches ``parameter``, until it is removed."""

    def __init__(self, parameter: torch.Tensor, arrived: Callable[..., None]) -> None:
        self._parameter = parameter
        self._before: Any = None
        self._accumulator: Any = None
        if hasattr(parameter, "register_post_accumulate_grad_hook"):
            self._hook = parameter.register_post_accumulate_grad_hook(arrived)
        else:
            # Older PyTorch has hooks only on the graph node that accumulates the gradient.
            self._hook = self._node().register_hook(arrived)

    @property
    def is_called_before(self) -> bool:
        """Whether ``call_before`` has been called."""
        return self._before is not None

    def call_before(self, arriving: Callable[..., None]) -> None:
        """Calls ``arriving`` before each backward pass that reaches the parameter adds to its gradient.

        The parameter must require a gradient, because a frozen one has no node.
        """
        self._before = self._node().register_prehook(arriving)

    def _node(self) -> Any:
        """The node of the graph that accumulates the gradient. PyTorch does not keep it alive, so this object does."""
        with torch.enable_grad():
            expanded: Any = self._parameter.expand_as(self._parameter)
        self._accumulator = expanded.grad_fn.next_functions[0][0]
        return self._accumulator

    def remove(self) -> None:
        """Removes the hook: ``arrived`` is not called any more."""
        self._hook.remove()
        if self._before is not None:
            self._before.remove()
        self._accumulator = None


_graph_task: Callable[[], int] = getattr(torch._C, "_current_graph_task_id", lambda: -1)


class _LastAnswer(threading.local):
    """The pass in which this thread called ``is_in_nested_pass`` last, and the answer. Autograd calls hooks from one
    thread per device."""

    task = -1
    is_nested = False


_last_answer = _LastAnswer()


def is_in_nested_pass() -> bool:
    """Whether a hook is called by a backward pass that a function's ``backward`` runs, as reentrant activation
    checkpointing does: the outer pass may reach the parameter again."""
    task = _graph_task()
    if task == _last_answer.task and task != -1:
        return _last_answer.is_nested
    frame: Optional[types.FrameType] = sys._getframe(1)
    while frame is not None and frame.f_code is not _BACKWARD_OF_A_FUNCTION:
        frame = frame.f_back
    _last_answer.task, _last_answer.is_nested = task, frame is not None
    return frame is not None


_BACKWARD_OF_A_FUNCTION = torch.autograd.function.BackwardCFunction.apply.__code__
