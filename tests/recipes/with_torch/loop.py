"""One step of a recipe: passes, clearing, clipping, scaling and stepping."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Callable, Dict, List

import torch

if TYPE_CHECKING:
    from with_torch.training import Training


def take_step(training: Training, is_short: bool) -> None:
    recipe = training.recipe
    passes = recipe.passes
    if recipe.remainder == "stepped" and training.step == 1:
        passes -= 1
    if recipe.second == "turns":
        for optimizer in training.optimizers:
            clear(training, optimizer)
            run_passes(training, passes, is_short)
            finish(training, [optimizer])
    elif recipe.closure or recipe.optimizer == "LBFGS":
        step_with_closure(training, is_short)
    else:
        if not recipe.is_cleared_last:
            clear_all(training)
        run_passes(training, passes, is_short)
        finish(training, training.optimizers)
    adjust_rates(training)
    if training.average is not None:
        training.average.update_parameters(training.model)
    if recipe.evaluates:
        evaluate(training)
    if recipe.remainder == "dropped" and training.step == 0:
        clear_all(training)
        run_passes(training, 1, is_short)
        clear_all(training)


def run_passes(training: Training, passes: int, is_short: bool) -> None:
    losses = [training.compute(*training.next_batch(is_short), is_short) for _ in range(passes)]
    training.loss = training.seat.average(sum(losses) / passes)  # type: ignore[arg-type]


def compute(training: Training, x: Any, words: Any, target: Any, is_short: bool) -> torch.Tensor:
    """A forward and a backward pass; the loss of these rows, to be averaged over ranks."""
    recipe, seat = training.recipe, training.seat
    if recipe.checkpoint == "reentrant" or recipe.penalty == "slope":
        x.requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16) if recipe.is_autocast else contextlib.nullcontext():
        output = training.forward(x, words)
    loss = LOSSES[recipe.loss](output.double(), target) + penalty(training, output, x)
    loss = loss * seat.share(recipe, is_short)
    scaled = loss * seat.factor(recipe)
    if recipe.scaler:
        assert training.scaler is not None
        overflows = recipe.scaler == "overflow" and training.step == 1 and seat.is_last
        scaled = training.scaler.scale(scaled * (float("inf") if overflows else 1.0))
    BACKWARD[recipe.backward](training, scaled)
    return loss.detach()


def _backward(training: Training, loss: torch.Tensor) -> None:
    loss.backward(create_graph=training.recipe.create_graph)


def _with_inputs(training: Training, loss: torch.Tensor) -> None:
    loss.backward(create_graph=training.recipe.create_graph, inputs=trained(training))


def _with_grad(training: Training, loss: torch.Tensor) -> None:
    parameters = trained(training)
    gradients = torch.autograd.grad(loss, parameters, create_graph=training.recipe.create_graph, allow_unused=True)
    for parameter, gradient in zip(parameters, gradients):
        if gradient is not None:
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient


def trained(training: Training) -> List[torch.nn.Parameter]:
    return [each for each in training.model.parameters() if each.requires_grad]


BACKWARD: Dict[str, Callable[[Training, torch.Tensor], None]] = {
    "": _backward,
    "inputs": _with_inputs,
    "grad": _with_grad,
}


def penalty(training: Training, output: torch.Tensor, x: torch.Tensor) -> Any:
    if training.recipe.penalty == "weights":
        return 0.01 * sum(each.abs().square().sum().double() for each in training.model.parameters())
    if training.recipe.penalty == "slope":
        (slope,) = torch.autograd.grad(output.square().sum(), x, create_graph=True)
        return 0.1 * slope.double().square().sum(1).mean()
    return 0.0


LOSSES: Dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "square": torch.nn.functional.mse_loss,
    "huber": torch.nn.functional.huber_loss,
    "entropy": lambda output, target: torch.nn.functional.cross_entropy(output, target.argmax(1)),
}


def finish(training: Training, optimizers: Any) -> None:
    """Clips and steps."""
    recipe = training.recipe
    if recipe.clip or recipe.scaler or recipe.synchronize:
        with training.seat.reduced(optimizers):
            for optimizer in optimizers if training.scaler is not None and recipe.clip else ():
                training.scaler.unscale_(optimizer)  # type: ignore[union-attr]
            clip(training, optimizers)
            step(training, optimizers)
    else:
        step(training, optimizers)
    if recipe.is_cleared_last:
        clear_all(training)


def step(training: Training, optimizers: Any) -> None:
    for optimizer in optimizers:
        if training.scaler is not None:
            training.scaler.step(optimizer)
        else:
            optimizer.step()
    if training.scaler is not None:
        training.scaler.update()


def step_with_closure(training: Training, is_short: bool) -> None:
    """The closure computes on the same batch each time, as L-BFGS requires."""
    recipe = training.recipe
    batch = training.next_batch(is_short)
    (optimizer,) = training.optimizers

    def closure() -> torch.Tensor:
        clear(training, optimizer)
        loss = training.compute(*batch, is_short)
        training.loss = training.seat.average(loss)
        if recipe.clip:
            training.seat.synchronize(optimizer)
            clip(training, [optimizer])
        # What L-BFGS decides by is reduced by the optimizer, or by the script if it reduces gradients itself.
        if recipe.clip and recipe.optimizer == "LBFGS":
            return training.seat.reduced_loss(recipe, training.loss)
        return loss * training.seat.factor(recipe)

    if recipe.clip:
        with training.seat.reduced([optimizer]):
            optimizer.step(closure)
    else:
        optimizer.step(closure)


def clip(training: Training, optimizers: Any) -> None:
    """Gradients of a parameter that another optimizer has are not reduced now."""
    groups = [group["params"] for optimizer in optimizers for group in optimizer.param_groups]
    parameters = [each for group in groups for each in group if each.grad is not None]
    if parameters:
        CLIPS[training.recipe.clip](parameters)


CLIPS: Dict[str, Callable[[Any], Any]] = {
    "": lambda parameters: None,
    "norm": lambda parameters: torch.nn.utils.clip_grad_norm_(parameters, 0.1),
    "maximum": lambda parameters: torch.nn.utils.clip_grad_norm_(parameters, 0.02, norm_type=float("inf")),
    "value": lambda parameters: torch.nn.utils.clip_grad_value_(parameters, 0.02),
}


def clear_all(training: Training) -> None:
    for optimizer in training.optimizers:
        clear(training, optimizer)


def clear(training: Training, optimizer: Any) -> None:
    CLEARING[training.recipe.clear](training.model, optimizer)


def _set_to_none(model: torch.nn.Module, optimizer: Any) -> None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = None


CLEARING: Dict[str, Callable[[torch.nn.Module, Any], None]] = {
    "optimizer": lambda model, optimizer: optimizer.zero_grad(),
    "optimizer_zeros": lambda model, optimizer: optimizer.zero_grad(set_to_none=False),
    "model": lambda model, optimizer: model.zero_grad(),
    "model_zeros": lambda model, optimizer: model.zero_grad(set_to_none=False),
    "script": _set_to_none,
}


def adjust_rates(training: Training) -> None:
    for scheduler in training.schedulers:
        if training.recipe.scheduler == "ReduceLROnPlateau":
            scheduler.step(training.loss)
        else:
            scheduler.step()


def evaluate(training: Training) -> None:
    x, words, _ = training.next_batch()
    training.model.eval()
    with torch.no_grad():
        training.model(x, words)
    training.model.train()
