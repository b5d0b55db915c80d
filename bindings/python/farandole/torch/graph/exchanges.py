"""alltoall in a graph: with an equal number of rows from every rank, or with ``splits`` and dynamic sizes."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import torch

from farandole.common.arguments import head, type_of_counts
from farandole.common.calls import alltoalls
from farandole.common.process_sets import ProcessSet
from farandole.torch.entry import start_unsized
from farandole.torch.graph.gathers import require_rows
from farandole.torch.graph.node import Set, gradient, node, one_alike, with_rows


@node("alltoall(Tensor tensor, str? name, SymInt? set) -> Tensor", one_alike)
def _alltoall(tensor: Any, name: Any, set: Any) -> Any:
    call = start_unsized(alltoalls[True], name, tensor.contiguous(), Set(set))  # type: ignore[arg-type]
    received = call.finish()
    rows = call.handles[0].first_dims
    require_rows("alltoall", name, rows, [tensor.shape[0] // len(rows)] * len(rows))
    return received


def _ragged(tensor: Any, splits: Any, name: Any, set: Any) -> Any:
    return with_rows(tensor, torch.library.get_ctx().new_dynamic_size()), torch.empty_like(splits, dtype=torch.int32)


@node("alltoall_ragged(Tensor tensor, Tensor splits, str? name, SymInt? set) -> (Tensor, Tensor)", _ragged)
def _alltoall_ragged(tensor: Any, splits: Any, name: Any, set: Any) -> Any:
    call = start_unsized(alltoalls[True], name, tensor.contiguous(), Set(set), splits.tolist())  # type: ignore[arg-type]
    received = call.finish()
    rows = call.handles[0].first_dims
    if type_of_counts(rows) != "int32":
        raise ValueError(
            f"{head('alltoall', name)} in a compiled graph: more than {2**31 - 1} rows came from one rank, and "
            "received_splits is int32; send fewer rows at once"
        )
    return received, torch.tensor(rows, dtype=torch.int32, device=splits.device)


def _keep_set(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.set = inputs[-1]
    if isinstance(output, tuple):
        ctx.save_for_backward(output[1])


def _returned(ctx: Any, incoming: torch.Tensor) -> Tuple[Any, ...]:
    return _alltoall(incoming.contiguous(), None, ctx.set), None, None


def _returned_by_splits(ctx: Any, incoming: torch.Tensor, _: Any) -> Tuple[Any, ...]:
    (received,) = ctx.saved_tensors
    return _alltoall_ragged(incoming.contiguous(), received, None, ctx.set)[0], None, None, None


gradient(_alltoall, _keep_set, _returned)
gradient(_alltoall_ragged, _keep_set, _returned_by_splits)


def alltoall(tensor: torch.Tensor, splits: Any, name: Optional[str], process_set: ProcessSet) -> Any:
    """``hvd.alltoall``."""
    if splits is None:
        return _alltoall(tensor, name, process_set.process_set_id)
    if not isinstance(splits, torch.Tensor):
        splits = torch.tensor(splits, dtype=torch.int64)
    return _alltoall_ragged(tensor, splits, name, process_set.process_set_id)
