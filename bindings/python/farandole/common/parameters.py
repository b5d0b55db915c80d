"""Gives one rank's named parameters to all, for any framework that can read and assign arrays."""

from __future__ import annotations

from typing import Any, Callable, Iterable, List, Tuple

from farandole.common.arguments import kind
from farandole.common.calls import broadcasts
from farandole.common.framework import HoldsArrays
from farandole.common.process_sets import ProcessSet, global_process_set

Named = List[Tuple[str, Any]]


def named_parameters(params: Any, is_tensor: Callable[[Any], bool]) -> Named:
    """A dictionary, sorted by name; a list of ``(name, tensor)`` as it is; a list of tensors, named by their numbers.

    ``ValueError`` for anything else.
    """
    if isinstance(params, dict):
        return sorted(params.items())
    if not isinstance(params, (list, tuple)) and not hasattr(params, "__next__"):
        raise ValueError(
            "invalid params: broadcast_parameters takes a dict of tensors by name, or a list of tensors or of pairs "
            f"(name, tensor), not {kind(params)}; pass the model's state_dict()"
        )
    listed = list(params)
    if all(is_tensor(each) for each in listed):
        return [(str(index), each) for index, each in enumerate(listed)]
    if all(isinstance(each, tuple) and len(each) == 2 for each in listed):
        return listed
    raise ValueError(
        "invalid params: broadcast_parameters takes a list of tensors or of pairs (name, tensor), and this list holds "
        f"{' and '.join(sorted({kind(each) for each in listed}))}; pass the model's state_dict()"
    )


def broadcast_named(
    framework: HoldsArrays,
    named: Iterable[Tuple[str, Any]],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Writes the root's content into each variable of all ranks; shapes and types must be the same.

    All are on their way at once; those that have arrived before one fails have been written.
    """
    import numpy

    from farandole.common import job
    from farandole.common.arrays import contiguous, start

    if process_set.size() == 1:
        return
    is_root = job.where().rank == root_rank
    started = []
    for name, variable in named:
        array = contiguous(framework.to_numpy(variable))
        # Received data must not be written into memory that the framework may still use.
        target = array if is_root else numpy.empty_like(array)
        started.append((start(broadcasts[root_rank, False], name, array, target, process_set), variable, target))
    for call, variable, target in started:
        call.finish()
        if not is_root:
            framework.assign(variable, target)
