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
        head.register_full_backward_hook(lambda module, inputs, outputs: tuple(_half(each) for each in inputs)),
    ]


def _half(gradient: Any) -> Any:
    return None if gradient is None else gradient * 0.5  # None: nothing before the module has parameters


def _step(training: Training) -> Any:
    """The hook before a step changes gradients, which are those of the whole batch then."""

    def halve_large(optimizer: Any, *_: Any) -> None:
        for group in optimizer.param_groups:
            for each in group["params"]:
                if each.grad is not None and not each.grad.is_sparse and each.grad.norm() > 0.3:
                    each.grad.mul_(0.5)

    hooks = []
    for optimizer in training.optimizers:
        hooks.append(optimizer.register_step_pre_hook(halve_large))
        hooks.append(optimizer.register_step_post_hook(_count(training, "step_post")))
    return hooks


def _state(training: Training) -> Any:
    """The state has an entry more when it is saved."""

    def add(optimizer: Any, state: Dict[str, Any]) -> None:
        state["note"] = "of a hook"

    def remove(optimizer: Any, state: Dict[str, Any]) -> Dict[str, Any]:
        return {key: value for key, value in state.items() if key != "note"}

    hooks = []
    for optimizer in training.optimizers:
        hooks.append(optimizer.register_state_dict_post_hook(add))
        hooks.append(optimizer.register_load_state_dict_pre_hook(remove))
    return hooks


def _everywhere(training: Training) -> Any:
    return [
        all_optimizers.register_optimizer_step_pre_hook(_count(training, "each_step_pre")),
        all_optimizers.register_optimizer_step_post_hook(_count(training, "each_step_post")),
        all_modules.register_module_forward_hook(_count(training, "each_forward")),
        all_modules.register_module_full_backward_hook(_count(training, "each_backward")),
    ]


HOOKS: Dict[str, Callable[[Training], Any]] = {
    "double_gradient": _double_gradient,
    "tensor": _tensor,
    "accumulated": _accumulated,
    "several": _several,
    "module": _module,
    "step": _step,
    "state": _state,
    "everywhere": _everywhere,
}
