"""Reductions of sparse tensors: the entries of all ranks are gathered, and entries of the same index are summed."""

from __future__ import annotations

from typing import Any, Callable  # noqa: F401  (the table of signatures names Callable)

import torch

from farandole.common.arguments import head, require_process_set
from farandole.common.basics import HorovodBasics
from farandole.common.calls import GATHERED_REDUCTION, Call, abandon, allgathers, following
from farandole.common.process_sets import ProcessSet  # noqa: F401
from farandole.common.wrappers import public_in
from farandole.torch.arguments import require_tensor
from farandole.torch.entry import start_unsized
from farandole.torch.memory import complex_like, reals_of


class SparseReduction(Call):
    """The result of ``sparse_allreduce_async``. Calling it waits and returns the sparse tensor."""

    __slots__ = ("_indices", "_values")

    def __init__(self, indices: Call, values: Call, make: Callable[[], torch.Tensor]) -> None:
        super().__init__([*indices.handles, *values.handles], make)
        self._indices = indices
        self._values = values

    def wait(self) -> None:
        """Waits for both. If the ranks disagree on the indices, some do not send values."""
        try:
            self._indices.wait()
        except (RuntimeError, ValueError):
            abandon(self._values)
            raise
        self._values.wait()

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
    require_process_set("sparse_allreduce", name, process_set)
    require_tensor("sparse_allreduce", name, tensor)
    if tensor.layout != torch.sparse_coo:
        raise ValueError(
            f"{head('sparse_allreduce', name)} takes tensors in the layout torch.sparse_coo, not {tensor.layout}; call "
            "allreduce for a dense tensor, or tensor.to_sparse_coo() first"
        )
    return start_rows(tensor, name, op, process_set, allgathers[False], f"{name}.indices")


def start_rows(
    tensor: torch.Tensor, name: str, op: int, process_set: ProcessSet, request: Any, indices_name: str
) -> SparseReduction:
    """Gathers the entries of a sparse tensor: their indices by this request under this name, then their values."""
    if op not in (HorovodBasics.Average, HorovodBasics.Sum):
        raise NotImplementedError(
            f"{head('sparse_allreduce', name)} takes op=Average or op=Sum only; call tensor.to_dense() first, and "
            "allreduce"
        )
    entries = tensor.coalesce()
    values_name = name_of_values(name, request, indices_name, process_set)
    indices = start_unsized(request, indices_name, entries.indices().t().contiguous(), process_set)
    values = start_values(entries.values(), values_name, process_set)
    return SparseReduction(indices, values, lambda: summed(tensor, indices.finish(), values.finish(), op, process_set))


def name_of_values(name: str, request: Any, indices_name: str, process_set: ProcessSet) -> str:
    """The name under which the values of a sparse tensor are gathered; to be called while the indices are not."""
    return following(f"{name}.values", request, indices_name, process_set)


def start_values(values: torch.Tensor, name: str, process_set: ProcessSet) -> Any:
    """Gathers the values of the entries of a sparse tensor."""
    return start_unsized(allgathers[False], name, reals_of(values).contiguous(), process_set)


def start_no_values(tensor: torch.Tensor, places: torch.Tensor, name: str, process_set: ProcessSet) -> Any:
    """Takes part in the gathering of the values of a gradient like ``tensor`` at these places, with no values of this
    rank."""
    values = tensor.detach().new_empty((0, *tensor.shape[places.size(1) :]))
    return start_values(values, name_of_values(name, GATHERED_REDUCTION, name, process_set), process_set)


def summed(
    tensor: torch.Tensor, places: torch.Tensor, values: torch.Tensor, op: int, process_set: ProcessSet
) -> torch.Tensor:
    """The reduced sparse tensor, like ``tensor``, of the entries that all ranks have sent."""
    size = process_set.size() or 1
    is_mean, is_integer = op == HorovodBasics.Average, not values.is_floating_point()
    if is_mean and not is_integer:
        values = values / size
    entries = torch.sparse_coo_tensor(places.t(), complex_like(tensor, values), tensor.size(), check_invariants=False)
    return _mean_of_integers(entries, size) if is_mean and is_integer else entries
