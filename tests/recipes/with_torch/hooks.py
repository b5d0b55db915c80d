"""Hooks that a script may install, on tensors, modules and optimizers, and for all of a process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict

import torch
from torch.nn.modules import module as all_modules
from torch.optim import optimizer as all_optimizers

if TYPE_CHECKING:
    from with_torch.training import Training


def _count(training: Training, name: str) -> Callable[..., None]:
    """A hook that counts its calls. The counts are compared."""

    def called(*_: Any) -> None:
        training.calls[name] = training.calls.get(name, 0) + 1

    return called


def _double_gradient(training: Training) -> Any:
    return [each.register_hook(lambda gradient: gradient * 2) for each in training.model.head.parameters()]


def _tensor(training: Training) -> Any:
    counting = _count(training, "tensor")
    return [each.register_hook(counting) for each in training.model.parameters() if each.requires_grad]


def _accumulated(training: Training) -> Any:
    """It runs before Farandole's own hook if it was installed before the optimizer was wrapped."""

    def halve(parameter: torch.Tensor) -> None:
        assert parameter.grad is not None
        parameter.grad.mul_(0.5)

    return [each.register_post_accumulate_grad_hook(halve) for each in training.model.head.parameters()]


def _several(training: Training) -> Any:
    parameters = list(training.model.head.parameters())
    return [torch.autograd.graph.register_multi_grad_hook(parameters, _count(training, "several"))]


def _module(training: Training) -> Any:
    body, head = training.model.body, training.model.head
    return [
        body.register_forward_pre_hook(_count(training, "forward_pre")),
        body.register_forward_hook(lambda module, inputs, output: output * 1.5),
        head.register_full_backward_pre_hook(lambda module, outputs: tuple(each * 1.5 for each in outputs)),
        head.register_full_backward_hook(lambda module, inputs, outputs: tuple(_half(each) for each in inputs)),
    ]


def _half(gradient: Any) -> Any:
    return None if gradient is None else gradient * 0.5  # None: nothing before the module has parameters


def _node(training: Training) -> Any:
    """Hooks of a node in the graph of each pass, before and after it has computed gradients."""

    def watch(module: torch.nn.Module, inputs: Any, output: torch.Tensor) -> None:
        if output.grad_fn is not None:  # it is None without gradients
            output.grad_fn.register_prehook(lambda outputs: tuple(_half(each) for each in outputs))
            output.grad_fn.register_hook(_count(training, "node"))

    return [training.model.head.register_forward_hook(watch)]


class _SavedTensors:
    """Hooks that keep copies of the tensors that a graph saves. They are those of a context, which `remove` leaves."""

    def __init__(self) -> None:
        self._context = torch.autograd.graph.saved_tensors_hooks(lambda each: each.clone(), lambda each: each)
        self._context.__enter__()

    def remove(self) -> None:
        self._context.__exit__()


def _saved(training: Training) -> Any:
    return [_SavedTensors()]


def _step(training: Training) -> Any:
    """The hook before a step changes gradients, which are those of the whole batch then."""

    def shorten(optimizer: Any, *_: Any) -> None:
        for group in optimizer.param_groups:
            for each in group["params"]:
                if each.grad is not None and not each.grad.is_sparse:
                    each.grad.div_(1 + each.grad.norm())

    hooks = []
    for optimizer in training.optimizers:
        hooks.append(optimizer.register_step_pre_hook(shorten))
        hooks.append(optimizer.register_step_post_hook(_count(training, "step_post")))
    return hooks


def _state(training: Training) -> Any:
    """The state has an entry more while it is saved, and a group when it is."""

    def mark(optimizer: Any) -> None:
        for group in optimizer.param_groups:
            group["saved"] = len(group["params"])

    def unmark(optimizer: Any) -> None:
        for group in optimizer.param_groups:
            del group["saved"]

    def add(optimizer: Any, state: Dict[str, Any]) -> None:
        state["note"] = "of a hook"

    def remove(optimizer: Any, state: Dict[str, Any]) -> Dict[str, Any]:
        return {key: value for key, value in state.items() if key != "note"}

    hooks = []
    for optimizer in training.optimizers:
        hooks.append(optimizer.register_state_dict_pre_hook(mark))
        hooks.append(optimizer.register_state_dict_post_hook(add))
        hooks.append(optimizer.register_load_state_dict_pre_hook(remove))
        hooks.append(optimizer.register_load_state_dict_post_hook(unmark))
    return hooks


def _renamed(training: Training) -> Any:
    """The head's parameters have other names while they are saved."""

    def rename(state: Dict[str, Any], before: str, after: str) -> None:
        for name in [each for each in state if each.startswith(before)]:
            state[after + name[len(before) :]] = state.pop(name)

    head = training.model.head
    return [
        head.register_state_dict_post_hook(lambda module, state, prefix, _: rename(state, prefix, f"{prefix}saved.")),
        head.register_load_state_dict_pre_hook(
            lambda module, state, prefix, *_: rename(state, f"{prefix}saved.", prefix)
        ),
    ]


def _everywhere(training: Training) -> Any:
    return [
        all_optimizers.register_optimizer_step_pre_hook(_count(training, "each_step_pre")),
        all_optimizers.register_optimizer_step_post_hook(_count(training, "each_step_post")),
        all_modules.register_module_forward_pre_hook(_count(training, "each_forward_pre")),
        all_modules.register_module_forward_hook(_count(training, "each_forward")),
        all_modules.register_module_full_backward_pre_hook(_count(training, "each_backward_pre")),
        all_modules.register_module_full_backward_hook(_count(training, "each_backward")),
    ]


HOOKS: Dict[str, Callable[[Training], Any]] = {
    "double_gradient": _double_gradient,
    "tensor": _tensor,
    "accumulated": _accumulated,
    "several": _several,
    "module": _module,
    "node": _node,
    "saved": _saved,
    "step": _step,
    "state": _state,
    "renamed": _renamed,
    "everywhere": _everywhere,
}
