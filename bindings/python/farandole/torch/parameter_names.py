"""By what names the gradients of an optimizer are matched across ranks."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Tuple

import torch


def names_of(
    param_groups: List[Dict[str, Any]], named_parameters: Optional[Iterable[Tuple[str, torch.Tensor]]]
) -> Dict[torch.Tensor, str]:
    """The name of every parameter, the same on all ranks; ``ValueError`` unless each has one of its own."""
    if named_parameters is None:
        return {
            parameter: f"allreduce.noname.{i}.{j}"
            for i, group in enumerate(param_groups)
            for j, parameter in enumerate(group["params"])
        }
    named = list(named_parameters)
    if any(not isinstance(each, tuple) or len(each) != 2 for each in named):
        raise ValueError(
            "named_parameters should be a sequence of tuples (name, parameter), usually produced by "
            "model.named_parameters()."
        )
    names = [name for name, _ in named]
    repeated = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if repeated:
        raise ValueError(f"Parameter names in named_parameters must be unique. Found duplicates: {', '.join(repeated)}")
    known = {id(parameter) for _, parameter in named}
    nameless = [parameter for group in param_groups for parameter in group["params"] if id(parameter) not in known]
    if nameless:
        raise ValueError(
            f"named_parameters was specified, but {len(nameless)} model parameters were not named. Python object ids: "
            + ", ".join(str(id(parameter)) for parameter in nameless)
        )
    return {parameter: name for name, parameter in named}


def names_of_new(param_groups: List[Dict[str, Any]], known: Dict[torch.Tensor, str]) -> Dict[torch.Tensor, str]:
    """Names for the last group, which has come later; parameters that have a name keep it.

    :raises ValueError: where a name that the group gives is another parameter's already
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
