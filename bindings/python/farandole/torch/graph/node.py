"""Makes operations nodes of a graph.

Nodes are registered as having a side effect. Compilers must not drop a node whose result this rank does not use,
because another rank may wait for it, and must not reorder nodes, because ranks match calls without a name by order.
"""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

import torch

from farandole.common import job as _job
from farandole.common.process_sets import ProcessSet
from farandole.common.util import is_version_greater_equal_than

Tensors = Sequence[torch.Tensor]
Function = Callable[..., Any]

OFFERED = is_version_greater_equal_than(torch.__version__, "2.8.0")


def _never() -> bool:
    return False


# Whether Dynamo is tracing the caller. Always False before PyTorch 2.8, whose Inductor rejects nodes with effects;
# operations break the graph there.
is_tracing: Callable[[], bool] = torch.compiler.is_dynamo_compiling if OFFERED else _never


def node(schema: str, fake: Function) -> Callable[[Function], Any]:
    """Registers a function as a custom operator.

    :param schema: name, arguments and results in the syntax of ``torch.library``; an argument that is marked
        ``(a0!)`` is changed in place
    :param fake: returns tensors without data, of the shapes and types of the function's results
    """
    name, _, rest = schema.partition("(")
    mutated = [each for each in ("tensors", "tensor") if f"{each}," in rest and "!" in rest][:1]

    def decorate(function: Function) -> Any:
        if not OFFERED:
            return function
        made: Any = torch.library.custom_op(f"farandole::{name}", function, mutates_args=mutated, schema=f"({rest}")
        made.register_fake(fake)
        if not mutated:  # mutating operators are kept, in order, anyway
            register_effect(made)
        return made

    return decorate


def register_effect(made: Any) -> None:
    """Calls the operator's method of this name, or the function behind it where PyTorch lacks the method."""
    if hasattr(made, "register_effect"):
        from torch._library.effects import EffectType

        made.register_effect(EffectType.ORDERED)
    else:
        from torch._higher_order_ops import effects

        effects._register_effectful_op(made._opoverload, effects._EffectType.ORDERED)


def gradient(made: Any, setup: Callable[[Any, Any, Any], None], backward: Function) -> None:
    """Registers the gradient of a node: ``setup`` saves values for ``backward``."""
    if OFFERED:
        made.register_autograd(backward, setup_context=setup)


class Set(NamedTuple):
    """A process set as a graph holds it: its id alone."""

    process_set_id: Optional[int]


def set_rank(process_set: ProcessSet) -> Tuple[int, int]:
    """This process's rank in the set, and the number of members."""
    topology = _job.where()
    if process_set.process_set_id == 0:
        return topology.rank, topology.size
    members = process_set.ranks or [topology.rank]
    return (members.index(topology.rank) if topology.rank in members else 0), len(members)


def contiguous(tensors: Tensors) -> List[torch.Tensor]:
    """The tensors in contiguous layout, which the runtime requires and compilers do not preserve."""
    return [each.contiguous() for each in tensors]


def one_alike(tensor: torch.Tensor, *_: Any) -> torch.Tensor:
    """A fake result of the same shape."""
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def all_alike(tensors: Tensors, *_: Any) -> List[torch.Tensor]:
    """Fake results of the same shapes."""
    return [one_alike(each) for each in tensors]


def with_rows(tensor: torch.Tensor, rows: Any) -> torch.Tensor:
    """Uninitialised memory, or a fake result, like ``tensor`` but with another number of rows."""
    return tensor.new_empty((rows, *tensor.shape[1:]))
