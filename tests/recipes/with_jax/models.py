"""The models of recipes: a body, a norm, parameters of unusual kinds, and a head."""

from __future__ import annotations

from typing import Any, Callable, Dict, Tuple

import jax
import jax.numpy as jnp
import numpy as np
from recipe import Recipe

ROWS, INPUTS, WIDTH, OUTPUTS = 12, 4, 5, 2
"""The rows are those of all ranks together: each of 2 or of 3 ranks has an equal part of them."""
Layer = Callable[[Any, Any], Any]


def _linear(params: Any, x: Any) -> Any:
    return jnp.tanh(x @ params["first"]["kernel"] + params["first"]["bias"])


def _stacked(params: Any, x: Any) -> Any:
    """A scan over layers, whose parameters are slices of one array."""
    return jax.lax.scan(lambda x, kernel: (jnp.tanh(x @ kernel), None), _linear(params, x), params["stack"])[0]


BODIES: Dict[str, Layer] = {
    "linear": _linear,
    "stacked": _stacked,
    "shared": lambda params, x: _stacked(params, x) + jax.nn.gelu(x @ params["first"]["kernel"]),
    "mapped": lambda params, x: jax.vmap(lambda row: _linear(params, row) * jax.nn.sigmoid(row.sum()))(x),
}
# The first value of a parameter of this type, and the layer that it makes.
EXTRAS: Dict[str, Tuple[Callable[[Any], Any], Layer]] = {
    "weak": (lambda dtype: jnp.asarray(1.0), lambda value, x: x * value),
    "array": (lambda dtype: np.ones(WIDTH, dtype), lambda value, x: x * value),
    "empty": (lambda dtype: jnp.zeros((0, 3), dtype), lambda value, x: x + value.sum()),
    "stopped": (lambda dtype: jnp.full(3, 0.1, dtype), lambda value, x: x + jax.lax.stop_gradient(value).sum()),
    "nested": (
        lambda dtype: ((jnp.ones(3, dtype), None), [{"": jnp.ones(())}, {}]),
        lambda value, x: x * value[0][0][0],
    ),
    "wide": (lambda dtype: jnp.ones(WIDTH, "float32"), lambda value, x: (x * value).astype(x.dtype)),
    "complex": (lambda dtype: jnp.full(WIDTH, 1 + 0.5j), lambda value, x: (x * value * (1 - 1j)).real.astype(x.dtype)),
    "large": (lambda dtype: jnp.ones((130, 140), dtype), lambda value, x: x * value[:1, :WIDTH]),
}


def make_params(recipe: Recipe, seed: int) -> Dict[str, Any]:
    """The parameters of the recipe, as this seed draws them."""
    source = np.random.default_rng(seed)

    def dense(*shape: int) -> Any:
        kernel, bias = source.standard_normal(shape) / 2, source.standard_normal(shape[-1]) / 2
        return {"kernel": jnp.asarray(kernel, recipe.dtype), "bias": jnp.asarray(bias, recipe.dtype)}

    params: Dict[str, Any] = {"first": dense(INPUTS, WIDTH), "head": dense(WIDTH, OUTPUTS)}
    if recipe.body in ("stacked", "shared"):
        params["stack"] = dense(2, WIDTH, WIDTH)["kernel"]
    return {**params, **{name: EXTRAS[name][0](recipe.dtype) for name in recipe.extras}}


def forward(recipe: Recipe, mean: Callable[[Any, str], Any], params: Dict[str, Any], x: Any) -> Any:
    """The output of the model. `mean` is that over all ranks, of a value and its name."""
    x = BODIES[recipe.body](params, x)
    if recipe.is_normed:
        center = mean(x.mean(0), "center")
        x = (x - center) / jnp.sqrt(mean(((x - center) ** 2).mean(0), "variance") + 1e-2)
    for name in recipe.extras:
        x = EXTRAS[name][1](params[name], x)
    return x @ params["head"]["kernel"] + params["head"]["bias"]
