"""The loss, and functions of it, that some Optax optimizers take besides the gradients: line searches, Polyak's step
size, sharpness-aware minimization. They decide by these values, so all ranks have to have the same ones.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict

import jax

from farandole.common.basics import HorovodBasics
from farandole.common.reduction import word

FUNCTIONS = ("value_fn", "grad_fn")


def require_mean_of_functions(extra: Dict[str, Any], op: int, passes: int) -> None:
    """``ValueError`` if the functions that are evaluated in a step would not belong to its gradients."""
    for name in FUNCTIONS:
        if extra.get(name) is None:
            continue
        if op != HorovodBasics.Average:
            raise ValueError(
                f"DistributedOptimizer was given {name} and op={word(op)}, but it averages {name} over the ranks; use "
                "op=Average"
            )
        if passes > 1:
            raise ValueError(
                f"DistributedOptimizer was given {name} and backward_passes_per_step={passes}, but {name} evaluates "
                "the batch of one pass; use larger batches and backward_passes_per_step=1"
            )
    if extra.get("obj_fn") is not None:
        raise ValueError(
            "DistributedOptimizer was given obj_fn, whose second derivatives would be those of this rank's batch; use "
            "an optimizer that needs none"
        )


def of_all_ranks(
    extra: Dict[str, Any], reduce: Callable[[Any, str], Any], mean: Callable[[Any], Any]
) -> Dict[str, Any]:
    """The arguments of ``update`` besides gradients, as one process with the batches of all ranks would have them.

    :param reduce: reduces a tree of gradients, whose operations have this suffix
    :param mean: reduces a loss
    """
    made: Dict[str, Callable[[Any], Any]] = {
        "value": mean,
        "grad": lambda grad: reduce(grad, ".grad"),
        "value_fn": lambda function: _mean_of(function, reduce, mean),
        "grad_fn": lambda function: functools.wraps(function)(
            lambda *arguments, **others: reduce(function(*arguments, **others), ".grad_fn")
        ),
    }
    return {name: made[name](each) if name in made and each is not None else each for name, each in extra.items()}


def _mean_of(function: Any, reduce: Callable[[Any, str], Any], mean: Callable[[Any], Any]) -> Any:
    """The mean over all ranks of a function of the parameters. Its gradient is the mean of the ranks' gradients."""

    @jax.custom_vjp
    def shared(params: Any) -> Any:
        return params

    shared.defvjp(lambda params: (params, None), lambda _, gradients: (reduce(gradients, ".value_fn"),))

    @jax.custom_vjp
    def averaged(value: Any) -> Any:
        return mean(value)

    averaged.defvjp(lambda value: (mean(value), None), lambda _, gradient: (gradient,))

    @functools.wraps(function)  # Optax looks up by the signature which arguments are for it
    def of_all(params: Any, *arguments: Any, **others: Any) -> Any:
        return averaged(function(shared(params), *arguments, **others))

    return of_all
