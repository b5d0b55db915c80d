"""The optimizers of recipes: updates by hand, those of Keras, and those of TensorFlow 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple

import keras
import tensorflow as tf
from with_keras.optimizers import CHOICES as OF_KERAS
from with_keras.optimizers import OPTIONS, SCHEDULES
from with_keras.optimizers import with_scaler as with_scaler_of_keras

from with_tensorflow.models import Weights
from with_tensorflow.recipe import Recipe

if TYPE_CHECKING:
    from with_tensorflow.training import Training

CHOICES: Dict[str, Any] = {
    **{name: OF_KERAS[name] for name in ("SGD", "Adam", "RMSprop", "Adagrad", "Nadam", "Ftrl")},
    **{f"v1.{name}": () for name in ("GradientDescent", "Momentum", "Adam", "Adagrad", "RMSProp")},
    "hand": (),
}
RATE = 0.05
old, old_scalers = tf.compat.v1.train, tf.compat.v1.mixed_precision
DECAYS: Dict[str, Callable[[Any], Any]] = {
    "ExponentialDecay": lambda step: old.exponential_decay(RATE, step, 2, 0.5),
    "PiecewiseConstantDecay": lambda step: old.piecewise_constant(step, [1, 3], [RATE, 0.02, 0.1]),
    "PolynomialDecay": lambda step: old.polynomial_decay(RATE, step, 5, power=2.0),
    "InverseTimeDecay": lambda step: old.inverse_time_decay(RATE, step, 2, 0.5, staircase=True),
    "CosineDecay": lambda step: old.cosine_decay(RATE, step, 4),
    "CosineDecayRestarts": lambda step: old.cosine_decay_restarts(RATE, step, 2),
}
"""Of a global step, by the names that Keras has for them."""
CLIPS: Dict[str, Callable[[List[Any]], List[Any]]] = {
    "norm": lambda gradients: [tf.clip_by_norm(each, 0.1) for each in gradients],
    "global_norm": lambda gradients: tf.clip_by_global_norm(gradients, 0.2)[0],
    "value": lambda gradients: [tf.clip_by_value(each, -0.02, 0.02) for each in gradients],
}


class Part(NamedTuple):
    """What one optimizer trains."""

    optimizer: Any
    """None for updates by hand."""
    trained: Weights

    def variables(self) -> List[Any]:
        """The optimizer's, in the order of the model's, as a restored optimizer has made them in another one."""
        optimizer = inner = self.optimizer
        if not hasattr(optimizer, "get_slot"):
            return [*getattr(optimizer, "variables", [])]
        while hasattr(inner, "_optimizer"):
            inner = inner._optimizer
        slots = [
            inner.get_slot(each, name) for name in sorted(inner.get_slot_names()) for each in self.trained.values()
        ]
        return [*(each for each in slots if each is not None), *optimizer.variables()]

    def scaled(self, scaler: str) -> Part:
        """With a loss scaler."""
        if not isinstance(self.optimizer, old.Optimizer):
            if scaler != "fixed":
                return self._replace(optimizer=with_scaler_of_keras(self.optimizer))
            self.optimizer.loss_scale_factor = 64.0
            return self
        scale = 64.0 if scaler == "fixed" else old_scalers.DynamicLossScale(64.0, 3)
        return self._replace(optimizer=old_scalers.MixedPrecisionLossScaleOptimizer(self.optimizer, scale))


def make_parts(recipe: Recipe, rate: Any, trained: Weights) -> List[Part]:
    """The optimizers of the recipe, which are not wrapped."""
    first = make_optimizer(recipe, rate)
    if not recipe.second:
        return [Part(first, trained)]
    adam = old.AdamOptimizer if recipe.optimizer.startswith("v1.") else keras.optimizers.Adam
    head = {name: each for name, each in trained.items() if name.startswith("head.")}
    body = {name: each for name, each in trained.items() if name not in head}
    return [Part(first, body), Part(adam(0.02), head)]


def make_rate(recipe: Recipe, global_step: Any) -> Any:
    """What old optimizers, and updates by hand, take and change."""
    return DECAYS[recipe.schedule](global_step) if recipe.schedule else tf.Variable(RATE, False, dtype="float64")


def make_optimizer(recipe: Recipe, rate: Any) -> Any:
    """The optimizer of the recipe, which is not wrapped; None for updates by hand."""
    library, _, name = recipe.optimizer.rpartition(".")
    if library:
        options = {"momentum": 0.9} if name == "Momentum" else {}
        return getattr(old, f"{name}Optimizer")(rate if recipe.schedule else rate.read_value, **options)
    options = {key: value for each in recipe.options for key, value in OPTIONS[each].items()}
    own_rate = SCHEDULES[recipe.schedule](RATE) if recipe.schedule else RATE
    return None if name == "hand" else getattr(keras.optimizers, name)(own_rate, **options)


def apply(training: Training, gradients: List[Any], variables: List[Any]) -> List[Any]:
    """Clips the gradients, and updates the variables and their averages. Returns what is to be done."""
    if training.recipe.clip:
        gradients = CLIPS[training.recipe.clip](gradients)
    done = []
    for part in training.parts:
        known = {id(each) for each in part.trained.values()}
        pairs = [pair for pair in zip(gradients, variables) if id(pair[1]) in known]
        if pairs and part.optimizer is not None:
            is_counted = hasattr(part.optimizer, "get_slot") and part is training.parts[0]
            counted = {"global_step": training.global_step} if is_counted else {}
            done.append(part.optimizer.apply_gradients(pairs, **counted))
        else:
            done += [_moved(training.rate, *pair) for pair in pairs]
    done = [each for each in done if each is not None]
    if training.moving is None:
        return done
    with tf.control_dependencies(done):
        return [training.moving.apply([*training.trained.values()])]


def _moved(rate: Any, gradient: Any, variable: Any) -> Any:
    rate = tf.cast(rate, variable.dtype)
    if not isinstance(gradient, tf.IndexedSlices):
        return variable.assign_sub(rate * gradient)
    return variable.scatter_sub(tf.IndexedSlices(rate * gradient.values, gradient.indices))
