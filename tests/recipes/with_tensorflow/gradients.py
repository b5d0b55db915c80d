"""The ways in which a script computes its gradients."""

from __future__ import annotations

import contextlib
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Sequence, Tuple

import tensorflow as tf

from with_tensorflow.models import Weights, output_of
from with_tensorflow.seats import TAPES

if TYPE_CHECKING:
    from with_tensorflow.optimizers import Part
    from with_tensorflow.training import Training

STRUCTURES: Dict[str, Callable[[Weights], Any]] = {
    "list": lambda weights: [*weights.values()],
    "dict": dict,
    "nested": lambda weights: {"a": ([*weights.values()][0], {"b": [*weights.values()][1:]})},
    "repeated": lambda weights: [[*weights.values()][0], *weights.values()],
}
ASKED = ("entered", "within", "halves", "again", "targets", "factor", "zeros", "generic", "penalty", "inner")


def _loss_of(training: Training, weights: Weights, number: Any, x: Any, words: Any, y: Any) -> Any:
    with tf.GradientTape() as inner:
        inner.watch(x)
        output = output_of(training.recipe, weights, training.norm, number, x, words)
    loss = tf.reduce_mean(tf.square(output - y))
    if "penalty" in training.recipe.asked:
        loss += tf.reduce_mean(tf.square(inner.gradient(output, x)))
    return loss


def differentiated(training: Training, turn: Sequence[Part], *batch: Any) -> Tuple[Any, List[Any], List[Any]]:
    """The loss of this part of the batch, the gradients for the optimizers of this turn, and their variables."""
    recipe, seat, asked = training.recipe, training.seat, training.recipe.asked
    factor, local_factor = seat.factors(recipe, training.step)
    losses: List[Any] = []

    def target() -> Any:
        weights: Weights = dict(training.weights)
        if "inner" in asked:
            with tf.GradientTape() as inner:
                loss = factor * _loss_of(training, weights, *batch)
            kernel = weights["first.kernel"]
            weights["first.kernel"] = kernel - 0.1 * seat.tape(training, inner).gradient(loss, kernel)
        losses.append(_loss_of(training, weights, *batch))
        return factor * losses[-1] + (local_factor * tf.reduce_sum(weights["local"] ** 2) if recipe.local else 0.0)

    if recipe.way == "optimizer" and recipe.optimizer.startswith("v1."):
        given = target if recipe.mode == "eager" else target()
        pairs = [*chain(*(each.optimizer.compute_gradients(given, [*each.trained.values()]) for each in turn))]
        return (losses[-1], *_kept(*zip(*pairs)))
    tape = tf.GradientTape(persistent=bool({"halves", "again"} & {*asked}))
    tape = seat.tape(training, tape) if "entered" in asked else tape
    options: Dict[str, Any] = {}
    if "generic" in asked and seat.is_in_job and recipe.way in TAPES:
        options["use_generic_names"] = True
    if "zeros" in asked:
        options["unconnected_gradients"] = tf.UnconnectedGradients.ZERO
    sources = STRUCTURES[recipe.structure]({name: each for part in turn for name, each in part.trained.items()})
    flat: List[Any] = tf.nest.flatten(sources)
    with contextlib.ExitStack() as recording:
        recording.enter_context(tape)
        total = turn[0].optimizer.scale_loss(target()) if recipe.scaler else target()
        if "targets" in asked:
            total = {"a": 0.25 * total, "b": [0.75 * total]}
        elif "factor" in asked:
            total, options["output_gradients"] = 0.5 * total, tf.constant(2.0, recipe.dtype)
        if "within" not in asked:
            recording.close()
        ask = partial((tape if "entered" in asked else seat.tape(training, tape)).gradient, total, **options)
        found = [*ask(flat[:1]), *ask(flat[1:])] if "halves" in asked else tf.nest.flatten(ask(sources))
        if "again" in asked:
            pairs = zip(found, tf.nest.flatten(ask(sources)))
            found = [one if one is None else 0.5 * (tf.convert_to_tensor(one) + other) for one, other in pairs]
    return (losses[-1], *_kept(found, flat))


def _kept(gradients: Any, variables: Any) -> Tuple[List[Any], List[Any]]:
    """The gradients that are not None, with their variables. Of a variable that occurs twice, the mean of both."""
    found: Dict[int, Any] = {}
    for gradient, variable in zip(gradients, variables):
        if gradient is not None:
            before = found.get(id(variable))
            found[id(variable)] = (0.5 * (before[0] + gradient) if before else gradient, variable)
    return [each for each, _ in found.values()], [each for _, each in found.values()]
