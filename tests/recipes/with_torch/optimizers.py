"""The optimizers of recipes, with their options and parameter groups."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import torch

from with_torch.models import Network
from with_torch.recipe import Recipe

Named = List[Tuple[str, torch.nn.Parameter]]

OPTIONS: Dict[str, Dict[str, Any]] = {
    "momentum": {"momentum": 0.9},
    "dampening": {"momentum": 0.9, "dampening": 0.1},
    "nesterov": {"momentum": 0.9, "nesterov": True},
    "no_nesterov": {"nesterov": False},
    "decay": {"weight_decay": 0.05},
    "decoupled": {"weight_decay": 0.05, "decoupled_weight_decay": True},
    "maximize": {"maximize": True},
    "foreach": {"foreach": True},
    "loop": {"foreach": False},
    "fused": {"fused": True},
    "amsgrad": {"amsgrad": True},
    "betas": {"betas": (0.8, 0.95)},
    "centered": {"centered": True},
    "rate_decay": {"lr_decay": 0.1},
    "accumulator": {"initial_accumulator_value": 0.1},
    "line_search": {"line_search_fn": "strong_wolfe", "lr": 1.0},
    "history": {"history_size": 2},
    "adjusted": {"adjust_lr_fn": "match_rms_adamw"},
    "averaging": {"t0": 1.0, "lambd": 0.01},
    "clipping": {"d": 1.5},
    "beta2_decay": {"beta2_decay": -0.5},
    "rho": {"rho": 0.8},
    "alpha": {"alpha": 0.9},
    "momentum_decay": {"momentum_decay": 0.02},
    "etas": {"etas": (0.6, 1.3)},
    "step_sizes": {"step_sizes": (0.005, 0.011)},
    "tensor_rate": {},  # `make_optimizer` replaces the rate
    "epsilon": {},  # of `EPSILONS`
}
# Of the options that a recipe has, groups after the first have other values.
OF_OTHER_GROUPS: Dict[str, Any] = {"weight_decay": 0.02, "momentum": 0.5, "betas": (0.7, 0.9), "foreach": False}
# Of each tuple an optimizer has at most one option. `capturable` needs a GPU, and `differentiable` parameters that are
# no leaves.
_LOOPS = ("foreach", "loop")
_ALL_LOOPS = ("foreach", "loop", "fused")
_SGD = (("momentum", "dampening", "nesterov"), ("decay",), ("maximize",), _ALL_LOOPS, ("tensor_rate",))
_ADAM = (("maximize",), ("amsgrad",), ("betas",), _ALL_LOOPS, ("tensor_rate",), ("epsilon",))
_DECOUPLED = (("decay", "decoupled"), ("maximize",), ("betas",), _LOOPS, ("epsilon",))
CHOICES: Dict[str, Tuple[Tuple[str, ...], ...]] = {
    "SGD": _SGD,
    "Adam": (("decay", "decoupled"), *_ADAM),
    "AdamW": (("decay",), *_ADAM),
    "NAdam": (*_DECOUPLED, ("momentum_decay",)),
    "RAdam": _DECOUPLED,
    "Adamax": (("decay",), ("maximize",), ("betas",), _LOOPS, ("epsilon",)),
    "Adagrad": (("decay",), ("maximize",), ("rate_decay",), ("accumulator",), _ALL_LOOPS, ("epsilon",)),
    "Adadelta": (("decay",), ("maximize",), _LOOPS, ("epsilon",), ("rho",)),
    "Adafactor": (("decay",), ("maximize",), ("clipping",), _LOOPS, ("epsilon",), ("beta2_decay",)),
    "ASGD": (("decay",), ("maximize",), ("averaging",), _LOOPS, ("alpha",)),
    "RMSprop": (("decay",), ("maximize",), ("momentum",), ("centered",), _LOOPS, ("epsilon",), ("alpha",)),
    "Rprop": (("maximize",), _LOOPS, ("etas",), ("step_sizes",)),
    "LBFGS": (("line_search",), ("history",)),
    "Muon": (("decay",), ("no_nesterov",), ("adjusted",)),
    "SparseAdam": (("maximize",), ("betas",), ("epsilon",)),
}
EPSILONS: Dict[str, Any] = {
    **dict.fromkeys(("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "RMSprop", "SparseAdam"), 0.1),
    "Adadelta": 1e-3,
    "Adafactor": (0.1, 1e-3),
}
"""Of optimizers that divide by the size of a gradient. In halves a gradient near zero is a rounding error, of which no
large step must come."""
RATES = {"SGD": 0.1, "LBFGS": 0.05, "Adadelta": 1.0}


def named_parts(recipe: Recipe, model: Network) -> List[Named]:
    """The parameters of each optimizer."""
    named = list(model.named_parameters())
    if not recipe.second:
        return [named]
    tables = ("table.", "rare_table.")
    first = tables if recipe.optimizer == "SparseAdam" else ("body.", *tables)
    return [
        [(name, each) for name, each in named if name.startswith(first)],
        [(name, each) for name, each in named if not name.startswith(first)],
    ]


def make_optimizers(recipe: Recipe, parts: List[Named]) -> List[Any]:
    """The recipe's optimizer, and the second one."""
    optimizers = [make_optimizer(recipe, parts[0])]
    if len(parts) > 1:
        optimizers.append(torch.optim.SGD([each for _, each in parts[1]], lr=0.05, momentum=0.9))
    return optimizers


def make_optimizer(recipe: Recipe, named: Named) -> Any:
    options: Dict[str, Any] = {"lr": RATES.get(recipe.optimizer, 0.01)}
    if recipe.optimizer == "LBFGS":  # with more iterations it amplifies rounding errors
        options["max_iter"] = 4
    for name in recipe.options:
        options.update(OPTIONS[name])
    if recipe.optimizer in EPSILONS and (recipe.computes_in_halves or "epsilon" in recipe.options):
        options["eps"] = EPSILONS[recipe.optimizer]
    rate = options["lr"]
    if "tensor_rate" in recipe.options:
        options["lr"] = torch.tensor(rate, dtype=torch.float64)
    if recipe.added:
        named = [(name, each) for name, each in named if not name.startswith("head.")]
    members: List[Any] = list(named) if "pairs" in recipe.wrapping else [each for _, each in named]
    if recipe.groups > 1:
        others = {name: value for name, value in OF_OTHER_GROUPS.items() if name in options}
        members = [
            {"params": members[index :: recipe.groups], "lr": rate / (index + 1), **(others if index else {})}
            for index in range(min(recipe.groups, len(members)))
        ]
    return getattr(torch.optim, recipe.optimizer)(members, **options)


def added_group(recipe: Recipe, model: Network) -> Dict[str, Any]:
    """The group that `Recipe.added` adds."""
    named = [(f"head.{name}", each) for name, each in model.head.named_parameters()]
    return {"params": named if "pairs" in recipe.wrapping else [each for _, each in named], "lr": 0.02}
