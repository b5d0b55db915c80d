"""The models of recipes: functions of weights by name."""

from __future__ import annotations

from typing import Any, Callable, Dict

import numpy as np
import tensorflow as tf

from with_tensorflow.recipe import Recipe

WIDTH, OUTPUTS, WORDS = 4, 2, 8
Weights = Dict[str, Any]


@tf.custom_gradient
def _halved_backward(x: Any) -> Any:
    return tf.identity(x), lambda upstream: 0.5 * upstream


BODIES: Dict[str, Callable[[Any, Any], Any]] = {
    "linear": lambda layer, x: layer(x),
    "deep": lambda layer, x: tf.nn.gelu(layer(layer(x) + 0.1)),
    "while": lambda layer, x: tf.while_loop(lambda n, _: n < 3, lambda n, h: (n + 1, layer(h)), (0, x))[1],
    "scan": lambda layer, x: tf.scan(lambda h, row: layer(h + row), tf.stack([x, -x, 0.5 * x]), tf.zeros_like(x))[-1],
    "recompute": lambda layer, x: tf.recompute_grad(layer)(x),
    "custom": lambda layer, x: _halved_backward(layer(x)),
}
_ROW = [1.0, 0.5, 0.75, 1.0]
EXTRAS: Dict[str, Dict[str, Any]] = {
    "scalar": {"initial_value": 1.0},
    "empty": {"initial_value": np.zeros(0)},
    "complex": {"initial_value": [1 + 0.5j, 0.7, 1.2, 0.2 + 1j], "dtype": "complex128"},
    "half": {"initial_value": _ROW, "dtype": "float16"},
    "bfloat": {"initial_value": _ROW, "dtype": "bfloat16"},
    "wide": {"initial_value": 1.0, "dtype": "float32"},
    "unused": {"initial_value": 1.0},
    "frozen": {"initial_value": 0.9, "trainable": False},
    "partial": {"initial_value": _ROW, "shape": [None]},
    "resting": {"initial_value": 1.0},
}


def make_variables(recipe: Recipe, distance: int) -> Weights:
    """Those of a rank at this distance of the root, which has other values."""
    source = np.random.default_rng(recipe.seed + 1000 * distance)
    shapes = {"first.kernel": [WIDTH, WIDTH], "first.bias": [WIDTH], "head.kernel": [WIDTH, OUTPUTS]}
    more = {"table": ([WORDS, WIDTH], recipe.embedding), "middle": ([WIDTH] * 2, recipe.is_shared)}
    more.update({"local": ([3], recipe.local), "head.bias": ([OUTPUTS], True)})
    shapes.update({name: shape for name, (shape, is_there) in more.items() if is_there})
    made = {name: tf.Variable(source.normal(0, 0.5, shape), dtype=recipe.dtype) for name, shape in shapes.items()}
    return {**made, **{name: tf.Variable(**{"dtype": recipe.dtype, **EXTRAS[name]}) for name in recipe.extras}}


def output_of(recipe: Recipe, weights: Weights, norm: Any, number: Any, x: Any, words: Any) -> Any:
    """The model's output in the step of this number."""
    dtype = recipe.policy.removeprefix("mixed_") or recipe.dtype
    if norm:
        x = norm(x + (1.0 if recipe.policy else 1000.0), training=True)
    x = tf.cast(x, dtype)
    if recipe.embedding:
        x += tf.cast(tf.gather(weights["table"], words), dtype)
    layers = {name: tf.cast(each, dtype) for name, each in weights.items() if name.startswith(("first.", "head."))}
    h = BODIES[recipe.body](lambda each: tf.tanh(each @ layers["first.kernel"] + layers["first.bias"]), x)
    if recipe.is_shared:
        middle = tf.cast(weights["middle"], dtype)
        h = tf.tanh(tf.tanh(h @ middle) @ middle)
    for name in recipe.extras:
        h = _with_extra(name, tf.convert_to_tensor(weights[name]), number, h)
    return tf.cast(h @ layers["head.kernel"] + layers["head.bias"], recipe.dtype)


def _with_extra(name: str, weight: Any, number: Any, h: Any) -> Any:
    weight = tf.cast(tf.math.abs(weight) if weight.dtype.is_complex else weight, h.dtype)
    if name == "unused":
        return h
    if name == "resting":
        return tf.cond(tf.equal(number % 2, 0), lambda: h * weight, lambda: h + 0.0)
    if name == "empty":
        return h + tf.reduce_sum(weight)
    return h * weight
