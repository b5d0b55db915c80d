"""The optimizers of recipes, with their schedules and what stands before them in a chain."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict

import jax
import jax.numpy as jnp
import optax
from recipe import Recipe

PLAIN = ("sgd", "adam", "amsgrad", "radam", "adan", "adabelief", "adadelta", "adagrad", "adamax", "fromage", "lamb")
MORE = ("lars", "lion", "novograd", "polyak_sgd", "rmsprop", "rprop", "yogi")
OPTIMIZERS: Dict[str, Callable[..., Any]] = {
    **{name: getattr(optax, name) for name in (*PLAIN, *MORE)},
    **{name: getattr(optax.contrib, name) for name in ("prodigy", "muon", "momo")},
    "momentum": partial(optax.sgd, momentum=0.9),
    "adamw": partial(optax.adamw, mask=lambda params: jax.tree.map(lambda each: jnp.ndim(each) > 1, params)),
    "adafactor": partial(optax.adafactor, momentum=0.9),
    "lbfgs": partial(optax.lbfgs, memory_size=3, linesearch=None),
    "noisy_sgd": partial(optax.noisy_sgd, key=3),
    "zoom": partial(optax.lbfgs, memory_size=3),
    "backtracking": lambda rate: optax.chain(
        optax.sgd(100 * rate), optax.scale_by_backtracking_linesearch(8, max_learning_rate=2.0, store_grad=True)
    ),
    "schedule_free": partial(optax.contrib.schedule_free_adamw, warmup_steps=2),
}
ONE_RATE = ("adafactor", "lbfgs", "novograd", "polyak_sgd", "rprop", "schedule_free")
SEARCHES = ("zoom", "backtracking")
"""They search along a line, and evaluate the loss there."""
COMPLEX = ("sgd", "momentum", "adam", "adamw", "adabelief")
SCHEDULES: Dict[str, Callable[[float], Any]] = {
    "cosine": lambda rate: optax.warmup_cosine_decay_schedule(rate / 10, rate, 2, 6),
    "exponential": lambda rate: optax.exponential_decay(rate, 2, 0.5, staircase=True),
}
CHAIN: Dict[str, Callable[[], Any]] = {
    "norm": lambda: optax.clip_by_global_norm(0.1),
    "value": lambda: optax.clip(0.02),
    "adaptive": lambda: optax.adaptive_grad_clip(0.05),
    "decay": lambda: optax.add_decayed_weights(0.05),
    "masked": lambda: optax.masked(optax.trace(0.8), lambda params: {each: each == "head" for each in params}),
    "ema": lambda: optax.ema(0.7),
    "noise": lambda: optax.add_noise(0.01, 0.5, 7),
    "plateau": lambda: optax.contrib.reduce_on_plateau(patience=1, rtol=0.2),
}


def make_optimizer(recipe: Recipe, wrap: Callable[..., Any]) -> Any:
    """The optimizer of the recipe. `wrap` makes one in a place a distributed one."""
    rate: Any = 0.1 if recipe.optimizer in ("sgd", "momentum", "lars", "adagrad") else 0.02
    rate = SCHEDULES[recipe.schedule](rate) if recipe.schedule else rate
    kind = OPTIMIZERS[recipe.optimizer]
    made = (optax.inject_hyperparams(kind) if recipe.injected else kind)(rate)
    if recipe.parts:
        part = "head" if recipe.parts == "second" else "first"
        other = wrap(optax.adam(0.02), "parts", "other") if recipe.parts == "second" else optax.set_to_zero()
        made = optax.partition(
            {"main": wrap(made, "parts", "main"), "other": other},
            lambda params: {each: "other" if each == part else "main" for each in params},
        )
    made = optax.chain(wrap(optax.identity(), "first"), *(CHAIN[each]() for each in recipe.chain), made)
    if recipe.accumulated == "inside":
        made = optax.MultiSteps(made, 2).gradient_transformation()
    made = wrap(optax.apply_if_finite(made, 5) if recipe.finite else made, "around")
    return optax.MultiSteps(made, 2).gradient_transformation() if recipe.accumulated == "outside" else made
