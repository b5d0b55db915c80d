"""How an operation becomes a node of a graph.

Nodes have an effect, so that compilers neither drop one whose result this rank does not use (another may wait for it),
nor change their order: without a name, calls match by their order.
"""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

import torch

from farandole.common import job as _job
from farandole.common.process_sets import ProcessSet

Tensors = Sequence[torch.Tensor]
Function = Callable[..., Any]

_OFFERED = hasattr(torch.library, "custom_op") and hasattr(torch.compiler, "is_dynamo_compiling")


def _never() -> bool:
    return False


# Whether Dynamo reads the caller to make a graph of it; never where PyTorch has no operators of others (before 2.4).
is_tracing: Callable[[], bool] = torch.compiler.is_dynamo_compiling if _OFFERED else _never


def node(schema: str, fake: Function) -> Callable[[Function], Any]:
    """Makes an operator of a function.

    :param schema: its name, arguments and results as ``torch.library`` writes them; what is marked ``(a0!)`` is changed
        in place
    :param fake: tensors without data that are like those that the function would give
    """
    name, _, rest = schema.partition("(")
    mutated = [each for each in ("tensors", "tensor") if f"{each}," in rest and "!" in rest][:1]

    def decorate(function: Function) -> Any:
        if not _OFFERED:
            return function
        made: Any = torch.library.custom_op(f"farandole::{name}", function, mutates_args=mutated, schema=f"({rest}")
        made.register_fake(fake)
        if hasattr(made, "register_effect") and not mutated:  # what changes a tensor is kept, and kept in order, anyway
            from torch._library.effects import EffectType

            made.register_effect(EffectType.ORDERED)
        return made

    return decorate


def gradient(made: Any, setup: Callable[[Any, Any, Any], None], backward: Function) -> None:
    """Gives a node its gradient: ``setup`` keeps what ``backward`` will need."""
    if _OFFERED:
        made.register_autograd(backward, setup_context=setup)


class Set(NamedTuple):
    """What is left of a process set in a graph."""

    process_set_id: Optional[int]


def seat(process_set: ProcessSet) -> Tuple[int, int]:
    """This process's number in the set, and the number of members."""
    place = _job.where()
    if process_set.process_set_id == 0:
        return place.rank, place.size
    members = process_set.ranks or [place.rank]
    return (members.index(place.rank) if place.rank in members else 0), len(members)


def contiguous(tensors: Tensors) -> List[torch.Tensor]:
    """Compilers lay tensors out as they like; the runtime takes them in order."""
    return [each.contiguous() for each in tensors]


def one_alike(tensor: torch.Tensor, *_: Any) -> torch.Tensor:
    """A fake result of the same shape."""
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def all_alike(tensors: Tensors, *_: Any) -> List[torch.Tensor]:
    """Fake results of the same shapes."""
    return [one_alike(each) for each in tensors]


def with_rows(tensor: torch.Tensor, rows: Any) -> torch.Tensor:
    """Memory, or a fake result, that differs in the number of rows."""
    return tensor.new_empty((rows, *tensor.shape[1:]))
