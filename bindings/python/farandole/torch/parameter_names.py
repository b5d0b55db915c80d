"""The names by which ranks match the gradients of an optimizer."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Tuple

import torch

from farandole.common.arguments import kind

_MOST_LISTED = 5
"""The number of parameters that an error describes."""


def names_of(
    param_groups: List[Dict[str, Any]], named_parameters: Optional[Iterable[Tuple[str, torch.Tensor]]]
) -> Dict[torch.Tensor, str]:
    """The name of every parameter, the same on all ranks; ``ValueError`` unless every parameter has a unique name."""
    if named_parameters is None:
        return {
            parameter: f"allreduce.noname.{i}.{j}"
            for i, group in enumerate(param_groups)
            for j, parameter in enumerate(group["params"])
        }
    named = _pairs(named_parameters)
    names = [name for name, _ in named]
    repeated = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if repeated:
        raise ValueError(
            f"DistributedOptimizer: the names in named_parameters must be unique, and {', '.join(repeated)} occurs "
            "more than once; put something in front of the names of each model"
        )
    known = {id(parameter) for _, parameter in named}
    nameless = [parameter for group in param_groups for parameter in group["params"] if id(parameter) not in known]
    if nameless:
        shapes = ", ".join(str(list(parameter.shape)) for parameter in nameless[:_MOST_LISTED])
        raise ValueError(
            f"DistributedOptimizer: named_parameters does not name {len(nameless)} parameters of the optimizer (of "
            f"shape {shapes}{', …' if len(nameless) > _MOST_LISTED else ''}); pass the named parameters of all "
            "models that the optimizer trains"
        )
    return {parameter: name for name, parameter in named}


def _pairs(named_parameters: Any) -> List[Tuple[str, torch.Tensor]]:
    """The argument as a list of ``(name, parameter)``. Raises ``TypeError`` if it is not iterable or is a module, and
    ``ValueError`` if its elements are not such pairs."""
    if isinstance(named_parameters, torch.nn.Module) or not hasattr(named_parameters, "__iter__"):
        raise TypeError(
            "DistributedOptimizer takes pairs (name, parameter) as named_parameters, not "
            f"{kind(named_parameters)}; pass model.named_parameters()"
        )
    named = list(named_parameters)
    for each in named:
        if not isinstance(each, tuple) or len(each) != 2 or not isinstance(each[0], str):
            raise ValueError(
                "DistributedOptimizer takes a sequence of tuples (name, parameter) as named_parameters, not of "
                f"{kind(each)}; pass model.named_parameters()"
            )
    return named


def names_of_new(param_groups: List[Dict[str, Any]], known: Dict[torch.Tensor, str]) -> Dict[torch.Tensor, str]:
    """Names for the last group, which was added after construction. Parameters that have a name keep it.

    :raises ValueError: if the group gives a parameter a name that another parameter has already
    """
    number = len(param_groups) - 1
    group = param_groups[number]
    given = group.get("param_names") or [f"allreduce.noname.{number}.{each}" for each in range(len(group["params"]))]
    taken = set(known.values())
    added: Dict[torch.Tensor, str] = {}
    for name, parameter in zip(given, group["params"]):
        if parameter in known:
            continue
        if name in taken:
            raise ValueError(f"a parameter that is called {name} is in this optimizer already; give each its own name")
        taken.add(name)
        added[parameter] = name
    return added
