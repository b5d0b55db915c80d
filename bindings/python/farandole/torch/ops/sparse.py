"""Reductions of sparse tensors: the entries of all ranks are gathered, and entries of the same index are summed."""

from __future__ import annotations

from typing import Callable  # noqa: F401  (the table of signatures names them)

import torch

from farandole.common.arguments import head, require_process_set
from farandole.common.basics import HorovodBasics
from farandole.common.calls import Call, allgathers
from farandole.common.process_sets import ProcessSet  # noqa: F401
from farandole.common.wrappers import public_in
from farandole.torch.arguments import require_tensor
from farandole.torch.entry import start_unsized
from farandole.torch.memory import complex_like, reals_of


class SparseReduction(Call):
    """The result of ``sparse_allreduce_async``. Calling it waits and returns the sparse tensor."""

    __slots__ = ()

    def __call__(self) -> torch.Tensor:
        result: torch.Tensor = self.finish()
        return result


def _mean_of_integers(entries: torch.Tensor, size: int) -> torch.Tensor:
    """Adds entries of the same index in 64 bits, and truncates their mean toward zero, as dense reductions do."""
    total = torch.sparse_coo_tensor(
        entries._indices(), entries._values().to(torch.int64), entries.size(), check_invariants=False
    ).coalesce()
    mean = torch.div(total.values(), size, rounding_mode="trunc").to(entries.dtype)
    return torch.sparse_coo_tensor(total.indices(), mean, entries.size(), check_invariants=False)


@public_in("torch")
def sparse_allreduce_async(tensor, name, op, process_set):
    if op not in (HorovodBasics.Average, HorovodBasics.Sum):
        raise NotImplementedError(
            f"{head('sparse_allreduce', name)} takes op=Average or op=Sum only; call tensor.to_dense() first, and "
            "allreduce"
        )
    require_process_set("sparse_allreduce", name, process_set)
    require_tensor("sparse_allreduce", name, tensor)
    if tensor.layout != torch.sparse_coo:
        raise ValueError(
            f"{head('sparse_allreduce', name)} takes tensors in the layout torch.sparse_coo, not {tensor.layout}; call "
            "allreduce for a dense tensor, or tensor.to_sparse_coo() first"
        )
    entries = tensor.coalesce()
    places = entries.indices().t().contiguous()
    indices = start_unsized(allgathers[False], f"{name}.indices", places, process_set)
    sent = reals_of(entries.values()).contiguous()
    values = start_unsized(allgathers[False], f"{name}.values", sent, process_set)

    is_mean, is_integer = op == HorovodBasics.Average, not sent.is_floating_point()

    def combined() -> torch.Tensor:
        all_values = values.finish()
        size = process_set.size() or 1
        if is_mean and not is_integer:
            all_values = all_values / size
        all_values = complex_like(tensor, all_values)
        reduced = torch.sparse_coo_tensor(indices.finish().t(), all_values, tensor.size(), check_invariants=False)
        return _mean_of_integers(reduced, size) if is_mean and is_integer else reduced

    return SparseReduction([*indices.handles, *values.handles], combined)
