"""allgather and reducescatter in a graph.

The number of rows that an allgather returns is known only when it has run, but a graph needs it at compile time. The
graph therefore expects the same number of rows from every rank, and raises an error if a rank brings another number.
If the user allows dynamic sizes (``torch._dynamo.config.capture_dynamic_output_shape_ops``), the size is dynamic
instead.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

import torch

from farandole.common.basics import HorovodBasics
from farandole.common.calls import GROUPED_ALLGATHER, allgathers, grouped_scatters, scatters
from farandole.common.process_sets import ProcessSet
from farandole.torch.entry import start, start_group, start_unsized
from farandole.torch.graph.node import Set, Tensors, contiguous, gradient, node, set_rank, with_rows
from farandole.torch.graph.reductions import all_averaged, averaged


def require_rows(what: str, name: Optional[str], brought: Sequence[int], expected: Sequence[int]) -> None:
    """Raises ``ValueError`` unless every rank has brought the number of rows that the graph was compiled for."""
    where = f"{what}{f' of {name}' if name else ''} in a compiled graph"
    if len(brought) != len(expected):
        raise ValueError(
            f"{where}: {len(brought)} ranks ran the operation, but the graph was traced for {len(expected)}"
        )
    for place, (rows, wanted) in enumerate(zip(brought, expected)):
        if rows != wanted:
            raise ValueError(
                f"{where}: rank {place} of the set has {rows} rows, but this rank's graph was traced for {wanted}; "
                "pass equally many rows on all ranks, or set "
                "torch._dynamo.config.capture_dynamic_output_shape_ops = True"
            )


def sizes_may_be_dynamic() -> bool:
    """Whether the user allows sizes that are known only when the graph runs."""
    return bool(torch._dynamo.config.capture_dynamic_output_shape_ops)


# ---- allgather: ``rows`` holds the number of rows of each rank ----


def _gathered(tensor: Any, name: Any, set: Any, place: Any, rows: Any) -> Any:
    return with_rows(tensor, sum(rows))


@node("allgather(Tensor tensor, str? name, SymInt? set, SymInt place, SymInt[] rows) -> Tensor", _gathered)
def allgather_node(tensor: Any, name: Any, set: Any, place: int, rows: Any) -> Any:
    """One allgather of known sizes."""
    call = start_unsized(allgathers[True], name, tensor.contiguous(), Set(set))  # type: ignore[arg-type]
    gathered = call.finish()
    require_rows("allgather", name, call.handles[0].first_dims, rows)
    return gathered


def _all_gathered(tensors: Any, name: Any, set: Any, place: Any, members: Any, rows: Any) -> Any:
    return [with_rows(each, sum(rows[index * members : (index + 1) * members])) for index, each in enumerate(tensors)]


@node(
    "grouped_allgather(Tensor[] tensors, str? name, SymInt? set, SymInt place, int members, SymInt[] rows) -> Tensor[]",
    _all_gathered,
)
def grouped_allgather_node(tensors: Any, name: Any, set: Any, place: int, members: int, rows: Any) -> Any:
    """One grouped allgather of known sizes. ``rows`` holds the rows of all ranks for the first tensor, then for the
    second, and so on."""
    call = start_group(GROUPED_ALLGATHER, name, contiguous(tensors), None, Set(set))  # type: ignore[arg-type]
    gathered = list(call.finish())
    for index, handle in enumerate(call.handles):
        expected = rows[index * members : (index + 1) * members]
        require_rows("grouped_allgather", name, handle.first_dims, expected)
    return gathered


def _ragged(tensor: Any, name: Any, set: Any, place: Any, members: Any) -> Any:
    rows = torch.library.get_ctx().new_dynamic_size()
    return with_rows(tensor, rows), torch.empty(members, dtype=torch.int64)


@node(
    "allgather_ragged(Tensor tensor, str? name, SymInt? set, SymInt place, SymInt members) -> (Tensor, Tensor)", _ragged
)
def _allgather_ragged(tensor: Any, name: Any, set: Any, place: int, members: int) -> Any:
    call = start_unsized(allgathers[True], name, tensor.contiguous(), Set(set))  # type: ignore[arg-type]
    return call.finish(), torch.tensor(call.handles[0].first_dims, dtype=torch.int64)


def _keep_rows(ctx: Any, inputs: Any, output: Any) -> None:
    _, _, ctx.set, ctx.place, ctx.rows = inputs


def _own_rows(ctx: Any, incoming: torch.Tensor) -> Tuple[Any, ...]:
    own = averaged(incoming, ctx.set).narrow(0, sum(ctx.rows[: ctx.place]), ctx.rows[ctx.place])
    return own, None, None, None, None


def _keep_all_rows(ctx: Any, inputs: Any, output: Any) -> None:
    _, _, ctx.set, ctx.place, ctx.members, ctx.rows = inputs


def _own_rows_of_all(ctx: Any, incoming: Tensors) -> Tuple[Any, ...]:
    own = []
    for index, mean in enumerate(all_averaged(incoming, ctx.set)):
        first = index * ctx.members
        rows = ctx.rows[first + ctx.place]
        own.append(mean.narrow(0, sum(ctx.rows[first : first + ctx.place]), rows))
    return own, None, None, None, None, None


def _keep_ragged_rows(ctx: Any, inputs: Any, output: Any) -> None:
    tensor, _, ctx.set, ctx.place, _ = inputs
    ctx.own = tensor.shape[0]
    ctx.save_for_backward(output[1])


def _own_ragged_rows(ctx: Any, incoming: torch.Tensor, _: Any) -> Tuple[Any, ...]:
    (rows,) = ctx.saved_tensors
    own = torch.arange(ctx.own) + rows[: ctx.place].sum()
    return averaged(incoming, ctx.set).index_select(0, own.to(incoming.device)), None, None, None, None


gradient(allgather_node, _keep_rows, _own_rows)
gradient(grouped_allgather_node, _keep_all_rows, _own_rows_of_all)
gradient(_allgather_ragged, _keep_ragged_rows, _own_ragged_rows)


def allgather(tensor: torch.Tensor, name: Optional[str], process_set: ProcessSet) -> Any:
    """``hvd.allgather``."""
    place, members = set_rank(process_set)
    if sizes_may_be_dynamic():
        return _allgather_ragged(tensor, name, process_set.process_set_id, place, members)[0]
    return allgather_node(tensor, name, process_set.process_set_id, place, [tensor.shape[0]] * members)


def grouped_allgather(tensors: Tensors, name: Optional[str], process_set: ProcessSet) -> Tuple[Any, ...]:
    """``hvd.grouped_allgather``; every rank must bring the same number of rows."""
    place, members = set_rank(process_set)
    rows = [each.shape[0] for each in tensors for _ in range(members)]
    return tuple(grouped_allgather_node(list(tensors), name, process_set.process_set_id, place, members, rows))


# ---- reducescatter ----

_HOW = "str? name, int op, float prescale, float postscale, SymInt? set, SymInt place, int members"


def _shares(rows: Any, members: int) -> Any:
    """The number of rows that each rank keeps. The first ranks keep one row more if the rows do not divide evenly."""
    return [(rows + members - 1 - each) // members for each in range(members)]


def _share(tensor: Any, name: Any, op: Any, prescale: Any, postscale: Any, set: Any, place: Any, members: Any) -> Any:
    return with_rows(tensor, (tensor.shape[0] + members - 1 - place) // members)


def _share_of_each(tensors: Any, *how: Any) -> Any:
    return [_share(each, *how) for each in tensors]


@node(f"reducescatter(Tensor tensor, {_HOW}) -> Tensor", _share)
def _reducescatter(tensor: Any, name: Any, op: int, prescale: float, postscale: float, set: Any, *set_rank: int) -> Any:
    share = _share(tensor, name, op, prescale, postscale, set, *set_rank)
    request = scatters[op, prescale, postscale, False]
    return start(request, name, tensor.contiguous(), share, Set(set), apart=True).finish()  # type: ignore[arg-type]


@node(f"grouped_reducescatter(Tensor[] tensors, {_HOW}) -> Tensor[]", _share_of_each)
def _grouped_reducescatter(
    tensors: Any, name: Any, op: int, prescale: float, postscale: float, set: Any, *set_rank: int
) -> Any:
    shares = _share_of_each(tensors, name, op, prescale, postscale, set, *set_rank)
    request = grouped_scatters[op, prescale, postscale, False]
    return list(start_group(request, name, contiguous(tensors), shares, Set(set), apart=True).finish())  # type: ignore[arg-type]


def _keep_slope(ctx: Any, inputs: Any, output: Any) -> None:
    tensors, _, op, prescale, postscale, ctx.set, ctx.place, ctx.members = inputs
    ctx.slope = prescale * postscale * (ctx.members if op == HorovodBasics.Sum else 1)
    ctx.rows = tensors.shape[0] if isinstance(tensors, torch.Tensor) else [each.shape[0] for each in tensors]


def _gathered_gradient(ctx: Any, incoming: torch.Tensor) -> Tuple[Any, ...]:
    rows = _shares(ctx.rows, ctx.members)
    whole = allgather_node(incoming.contiguous(), None, ctx.set, ctx.place, rows)
    return (whole * ctx.slope, *[None] * 7)


def _gathered_gradients(ctx: Any, incoming: Tensors) -> Tuple[Any, ...]:
    rows = [share for each in ctx.rows for share in _shares(each, ctx.members)]
    whole = grouped_allgather_node(contiguous(incoming), None, ctx.set, ctx.place, ctx.members, rows)
    return ([each * ctx.slope for each in whole], *[None] * 7)


gradient(_reducescatter, _keep_slope, _gathered_gradient)
gradient(_grouped_reducescatter, _keep_slope, _gathered_gradients)


def reducescatter(tensor: torch.Tensor, name: Any, op: int, process_set: ProcessSet, *scales: float) -> Any:
    """``hvd.reducescatter`` of the compressed tensor."""
    return _reducescatter(tensor, name, op, *scales, process_set.process_set_id, *set_rank(process_set))


def grouped_reducescatter(tensors: Tensors, name: Any, op: int, process_set: ProcessSet, *scales: float) -> Any:
    """``hvd.grouped_reducescatter`` of the compressed tensors."""
    return _grouped_reducescatter(list(tensors), name, op, *scales, process_set.process_set_id, *set_rank(process_set))
