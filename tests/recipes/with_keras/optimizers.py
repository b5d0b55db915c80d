"""The optimizers of recipes, with their options and schedules."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Callable, Dict, Tuple

from with_keras.recipe import Recipe
from with_keras.versions import IS_THREE, Scaler, keras

OPTIONS: Dict[str, Dict[str, Any]] = {
    "momentum": {"momentum": 0.9},
    "nesterov": {"momentum": 0.9, "nesterov": True},
    "no_nesterov": {"nesterov": False},
    "decay": {"weight_decay": 0.05},
    "amsgrad": {"amsgrad": True},
    "betas": {"beta_1": 0.8, "beta_2": 0.95},
    "rho": {"rho": 0.7},
    "centered": {"centered": True},
    "accumulator": {"initial_accumulator_value": 0.3},
    "absolute": {"relative_step": False},
    "lasso": {"l1_regularization_strength": 0.01, "l2_regularization_strength": 0.02},
    "shrinkage": {"l2_shrinkage_regularization_strength": 0.05, "beta": 0.1},
    "warmup": {"warmup_steps": 2},
    "matrices": {"exclude_embeddings": False},
    "falling": {"decay": 0.1},
}
# Of each tuple an optimizer has at most one option.
_ADAM = (("decay",), ("amsgrad",), ("betas",))
_MOMENTS = (("decay",), ("betas",))
CHOICES: Dict[str, Tuple[Tuple[str, ...], ...]] = {
    "SGD": (("momentum", "nesterov"), ("decay",)),
    "RMSprop": (("momentum",), ("centered",), ("rho",), ("decay",)),
    "Adam": _ADAM,
    "AdamW": _ADAM,
    "Adadelta": (("rho",), ("decay",)),
    "Adagrad": (("accumulator",), ("decay",)),
    "Adamax": _MOMENTS,
    "Adafactor": (("absolute",), ("decay",)),
    "Nadam": _MOMENTS,
    "Ftrl": (("accumulator",), ("lasso",), ("shrinkage",)),
    "Lion": _MOMENTS,
}
_OF_KERAS3 = {
    "Lamb": _MOMENTS,
    "Muon": (("decay",), ("no_nesterov",), ("matrices",)),
    "ScheduleFreeAdamW": (("decay",), ("betas",), ("warmup",)),
}
_OF_KERAS2 = {
    "legacy.SGD": (("momentum", "nesterov"), ("falling",)),
    "legacy.RMSprop": (("momentum",), ("centered",), ("rho",), ("falling",)),
    "legacy.Adam": (("falling",), ("amsgrad",), ("betas",)),
    "legacy.Adadelta": (("rho",),),
    "legacy.Adagrad": (("accumulator",),),
    "legacy.Adamax": (("betas",),),
    "legacy.Nadam": (("betas",),),
    "legacy.Ftrl": (("accumulator",), ("lasso",), ("shrinkage",)),
}
CHOICES.update(_OF_KERAS3 if IS_THREE else _OF_KERAS2)
RATES = {"SGD": 0.1, "Adadelta": 1.0, "Adagrad": 0.05, "Ftrl": 0.1}
CLIPS = {
    "norm": {"clipnorm": 0.02},
    "value": {"clipvalue": 0.01},
    "global_norm": {"global_clipnorm": 0.05},
}
AVERAGES = {
    "ema": {"use_ema": True, "ema_momentum": 0.8},
    "overwritten": {"use_ema": True, "ema_momentum": 0.8, "ema_overwrite_frequency": 3},
}
SCHEDULES: Dict[str, Callable[[float], Any]] = {
    "ExponentialDecay": lambda rate: keras.optimizers.schedules.ExponentialDecay(rate, 2, 0.5),
    "PiecewiseConstantDecay": lambda rate: keras.optimizers.schedules.PiecewiseConstantDecay([1, 3], [rate, 0.02, 0.1]),
    "PolynomialDecay": lambda rate: keras.optimizers.schedules.PolynomialDecay(rate, 5, power=2.0),
    "InverseTimeDecay": lambda rate: keras.optimizers.schedules.InverseTimeDecay(rate, 2, 0.5, staircase=True),
    "CosineDecay": lambda rate: keras.optimizers.schedules.CosineDecay(0.0, 4, warmup_target=rate, warmup_steps=2),
    "CosineDecayRestarts": lambda rate: keras.optimizers.schedules.CosineDecayRestarts(rate, 2),
}


def rate_of(recipe: Recipe) -> float:
    return RATES.get(recipe.optimizer.rpartition(".")[2], 0.01)


def make_optimizer(recipe: Recipe) -> Any:
    """The optimizer of the recipe, which is not wrapped."""
    options: Dict[str, Any] = {}
    for name in recipe.options:
        options.update(OPTIONS[name])
    options.update(CLIPS.get(recipe.clip, {}))
    options.update(AVERAGES.get(recipe.average, {}))
    if recipe.accumulated > 1:
        options["gradient_accumulation_steps"] = recipe.accumulated
    rate = SCHEDULES[recipe.schedule](rate_of(recipe)) if recipe.schedule else rate_of(recipe)
    made = attrgetter(recipe.optimizer)(keras.optimizers)(rate, **options)
    if recipe.second:
        second = keras.optimizers.Adam(0.02)
        made = keras.optimizers.MultiOptimizer(keras.optimizers.OptimizerMap(made, {"head/.*": second}))
    return with_scaler(made) if recipe.scaler == "inside" else made


def with_scaler(optimizer: Any) -> Any:
    """One whose scale grows after some steps."""
    return Scaler(optimizer, initial_scale=64.0, dynamic_growth_steps=3)
