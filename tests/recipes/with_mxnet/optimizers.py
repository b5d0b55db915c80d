"""The optimizers of recipes, with their options and schedulers."""

from __future__ import annotations

from typing import Any, Callable, Dict, Tuple

from mxnet import lr_scheduler

from with_mxnet.recipe import Recipe

OPTIONS: Dict[str, Dict[str, Any]] = {
    "decay": {"wd": 0.05},
    "clipped": {"clip_gradient": 0.02},
    "multi": {"multi_precision": True},
    "momentum": {"momentum": 0.9},
    "betas": {"beta1": 0.8, "beta2": 0.95},
    "centered": {"centered": True, "gamma2": 0.8},
}
# Of each tuple an optimizer has at most one option.
_ALL = (("decay",), ("clipped",), ("multi",))
IN_FLOAT32 = ("AdaGrad", "AdaDelta", "Ftrl", "RMSProp")
"""Their states have this type."""
CHOICES: Dict[str, Tuple[Tuple[str, ...], ...]] = {
    **dict.fromkeys(("SGD", "NAG", "LARS", "LBSGD"), (*_ALL, ("momentum",))),
    **dict.fromkeys(("Adam", "Adamax", "Nadam", "FTML", "LAMB"), (*_ALL, ("betas",))),
    **dict.fromkeys(("Signum", "DCASGD", *IN_FLOAT32), _ALL),
    "RMSProp": (*_ALL, ("centered",)),
}
RATES = {"SGD": 0.1, "NAG": 0.1, "LBSGD": 0.1, "LARS": 1.0, "DCASGD": 0.1, "AdaDelta": 1.0, "Ftrl": 0.1}
SCHEDULERS: Dict[str, Callable[[float], Any]] = {
    "Factor": lambda rate: lr_scheduler.FactorScheduler(1, 0.5, base_lr=rate),
    "Poly": lambda rate: lr_scheduler.PolyScheduler(5, rate),
    "Cosine": lambda rate: lr_scheduler.CosineScheduler(4, rate, warmup_steps=2, warmup_begin_lr=0.001),
}


def options_of(recipe: Recipe) -> Dict[str, Any]:
    """The arguments of the optimizer."""
    options: Dict[str, Any] = {"learning_rate": RATES.get(recipe.optimizer, 0.01)}
    for name in recipe.options:
        options.update(OPTIONS[name])
    if recipe.scheduler:
        options["lr_scheduler"] = SCHEDULERS[recipe.scheduler](options["learning_rate"])
    return options
