"""allreduce and broadcast in a graph."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import torch

from farandole.common import job as _job
from farandole.common.basics import HorovodBasics
from farandole.common.calls import (
    broadcasts,
    grouped_reduction,
    handle_average_backwards_compatibility,
    reduction,
)
from farandole.common.process_sets import ProcessSet
from farandole.torch.entry import start, start_group
from farandole.torch.graph.node import Set, Tensors, all_alike, contiguous, gradient, node, one_alike
from farandole.torch.memory import like, with_reals

_HOW = "str? name, int op, float prescale, float postscale, SymInt? set"


@node(f"allreduce(Tensor tensor, {_HOW}) -> Tensor", one_alike)
def allreduce_node(tensor: Any, name: Any, op: int, prescale: float, postscale: float, set: Any) -> Any:
    """One allreduce."""
    plain = tensor.contiguous()
    return start(reduction(None, op, prescale, postscale, waits=True), name, plain, like(plain), Set(set)).finish()  # type: ignore[arg-type]


@node(f"grouped_allreduce(Tensor[] tensors, {_HOW}) -> Tensor[]", all_alike)
def grouped_allreduce_node(tensors: Any, name: Any, op: int, prescale: float, postscale: float, set: Any) -> Any:
    """One grouped allreduce."""
    plain = contiguous(tensors)
    request = grouped_reduction(None, op, prescale, postscale, waits=True)
    return list(start_group(request, name, plain, [like(each) for each in plain], Set(set)).finish())  # type: ignore[arg-type]


def averaged(incoming: torch.Tensor, set: Any) -> torch.Tensor:
    """Averages a gradient over all ranks, the first step of the gradients of allgather and broadcast."""
    how = (None, HorovodBasics.Average, 1.0, 1.0, set)
    return with_reals(lambda reals: [allreduce_node(reals[0], *how)], [incoming])[0]


def all_averaged(incoming: Tensors, set: Any) -> List[torch.Tensor]:
    """Averages several gradients as one group."""
    how = (None, HorovodBasics.Average, 1.0, 1.0, set)
    return with_reals(lambda reals: grouped_allreduce_node(reals, *how), incoming)


def _keep_how(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.how = inputs[2:]


def _reduced_alike(ctx: Any, incoming: torch.Tensor) -> Tuple[Any, ...]:
    return (allreduce_node(incoming.contiguous(), None, *ctx.how), *[None] * 5)


def _all_reduced_alike(ctx: Any, incoming: Tensors) -> Tuple[Any, ...]:
    return (grouped_allreduce_node(contiguous(incoming), None, *ctx.how), *[None] * 5)


gradient(allreduce_node, _keep_how, _reduced_alike)
gradient(grouped_allreduce_node, _keep_how, _all_reduced_alike)


@node(f"allreduce_(Tensor(a0!) tensor, {_HOW}) -> ()", lambda *_: None)
def _allreduce_in_place(tensor: Any, name: Any, op: int, prescale: float, postscale: float, set: Any) -> None:
    plain = tensor.contiguous()
    start(reduction(None, op, prescale, postscale, waits=True), name, plain, plain, Set(set)).finish()  # type: ignore[arg-type]
    if plain is not tensor:
        tensor.copy_(plain)


@node(f"grouped_allreduce_(Tensor(a0!)[] tensors, {_HOW}) -> ()", lambda *_: None)
def _grouped_allreduce_in_place(tensors: Any, name: Any, op: int, prescale: float, postscale: float, set: Any) -> None:
    plain = contiguous(tensors)
    start_group(grouped_reduction(None, op, prescale, postscale, waits=True), name, plain, plain, Set(set)).finish()  # type: ignore[arg-type]
    for tensor, reduced in zip(tensors, plain):
        if reduced is not tensor:
            tensor.copy_(reduced)


def _how(
    average: Optional[bool], name: Optional[str], op: Optional[int], prescale: float, postscale: float, set: ProcessSet
) -> Tuple[Any, ...]:
    if op is None or average is not None:
        op = handle_average_backwards_compatibility(op, average)
    return name, op, prescale, postscale, set.process_set_id


def allreduce(tensor: torch.Tensor, *how: Any) -> Any:
    """``hvd.allreduce`` of the compressed tensor; ``how`` is average, name, op, both scales and the process set."""
    return allreduce_node(tensor, *_how(*how))


def grouped_allreduce(tensors: Tensors, *how: Any) -> Any:
    """``hvd.grouped_allreduce`` of the compressed tensors."""
    return grouped_allreduce_node(list(tensors), *_how(*how))


def allreduce_(tensor: torch.Tensor, *how: Any) -> torch.Tensor:
    """``hvd.allreduce_``."""
    _allreduce_in_place(tensor, *_how(*how))
    return tensor


def grouped_allreduce_(tensors: Tensors, *how: Any) -> Tuple[torch.Tensor, ...]:
    """``hvd.grouped_allreduce_``."""
    _grouped_allreduce_in_place(list(tensors), *_how(*how))
    return tuple(tensors)


# ---- broadcast ----


@node("broadcast(Tensor tensor, SymInt root_rank, str? name, SymInt? set, bool is_root) -> Tensor", one_alike)
def _broadcast(tensor: Any, root_rank: int, name: Any, set: Any, is_root: bool) -> Any:
    plain = tensor.contiguous()
    return start(broadcasts[root_rank, True], name, plain, like(plain), Set(set)).finish()  # type: ignore[arg-type]


@node("broadcast_(Tensor(a0!) tensor, SymInt root_rank, str? name, SymInt? set) -> ()", lambda *_: None)
def _broadcast_in_place(tensor: Any, root_rank: int, name: Any, set: Any) -> None:
    plain = tensor.contiguous()
    start(broadcasts[root_rank, True], name, plain, plain, Set(set)).finish()  # type: ignore[arg-type]
    if plain is not tensor:
        tensor.copy_(plain)


def _keep_root(ctx: Any, inputs: Any, output: Any) -> None:
    _, _, _, ctx.set, ctx.is_root = inputs


def _back_to_root(ctx: Any, incoming: torch.Tensor) -> Tuple[Any, ...]:
    mean = averaged(incoming, ctx.set)
    return (mean if ctx.is_root else torch.zeros_like(mean)), None, None, None, None


gradient(_broadcast, _keep_root, _back_to_root)


def broadcast(tensor: torch.Tensor, root_rank: int, name: Optional[str], process_set: ProcessSet) -> Any:
    """``hvd.broadcast``."""
    return _broadcast(tensor, root_rank, name, process_set.process_set_id, _job.where().rank == root_rank)


def broadcast_(tensor: torch.Tensor, root_rank: int, name: Optional[str], process_set: ProcessSet) -> torch.Tensor:
    """``hvd.broadcast_``."""
    _broadcast_in_place(tensor, root_rank, name, process_set.process_set_id)
    return tensor
