"""The operation table: names, defaults and documentation of the public functions, the same for every framework.

An adapter writes each function once and marks it with ``public``, which checks nothing at run time: it attaches the
documentation made from this table. A test compares the signatures with the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Tuple, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

# Numbers of the native module.
ALLREDUCE, ALLGATHER, BROADCAST, BARRIER, JOIN, ALLTOALL, REDUCESCATTER = range(7)

PARAMETER_DOCS: Dict[str, str] = {
    "tensor": "what this rank contributes; contiguous",
    "tensors": "what this rank contributes; they become ready together",
    "average": "deprecated: use ``op``",
    "name": "the same on all ranks, and not in flight; without one, calls match by their order",
    "op": "``Average`` (the default), ``Sum``, ``Min``, ``Max`` or ``Product``",
    "compression": "how the tensor travels: ``Compression.none``, ``.fp16`` or ``.bf16``",
    "prescale_factor": "multiplies the tensor before it is reduced",
    "postscale_factor": "multiplies the result",
    "process_set": "who takes part; everybody by default",
    "root_rank": "the global rank whose tensor all receive",
    "splits": "how many rows go to each rank: int32, on any device, or a list; equally many by default",
    "device": "where a rank that has joined makes the zeros that it contributes; the CPU for -1",
    "handle": "what an asynchronous function returned",
}


@dataclass(frozen=True)
class PublicFunction:
    """One public function: what it does, what it takes, what comes out."""

    summary: str
    parameters: Tuple[Tuple[str, str], ...]
    """Name and default as they are written; an empty default means that there is none."""
    returns: str

    def documentation(self) -> str:
        """The docstring."""
        lines = [self.summary, ""]
        lines += [f":param {name}: {PARAMETER_DOCS[name]}" for name, _ in self.parameters]
        return "\n".join([*lines, f":returns: {self.returns}"])


_AVERAGE = ("average", "None")
_NAME = ("name", "None")
_OP = ("op", "None")
_SCALES = (("prescale_factor", "1.0"), ("postscale_factor", "1.0"))
_SET = ("process_set", "global_process_set")
_COMPRESSION = ("compression", "Compression.none")
_MEAN = ("op", "Average")
_TENSOR = ("tensor", "")
_TENSORS = ("tensors", "")
_ROOT = ("root_rank", "")

_HANDLE = "a handle for poll() and synchronize()"


def _reductions() -> Dict[str, PublicFunction]:
    plain = (_AVERAGE, _NAME, _OP, *_SCALES, _SET)
    packed = (_AVERAGE, _NAME, _COMPRESSION, _OP, *_SCALES, _SET)
    what = "Reduces a tensor over all ranks"
    group = "Reduces several tensors over all ranks as one"
    return {
        "allreduce": PublicFunction(f"{what}.", (_TENSOR, *packed), "a new tensor, the same on every rank"),
        "allreduce_async": PublicFunction(f"{what}; returns at once.", (_TENSOR, *plain), _HANDLE),
        "allreduce_": PublicFunction(f"{what}, in place.", (_TENSOR, *plain), "the tensor"),
        "allreduce_async_": PublicFunction(f"{what}, in place; returns at once.", (_TENSOR, *plain), _HANDLE),
        "grouped_allreduce": PublicFunction(f"{group}.", (_TENSORS, *packed), "a list of new tensors"),
        "grouped_allreduce_async": PublicFunction(f"{group}; returns at once.", (_TENSORS, *plain), _HANDLE),
        "grouped_allreduce_": PublicFunction(f"{group}, in place.", (_TENSORS, *plain), "a tuple of the tensors"),
        "grouped_allreduce_async_": PublicFunction(f"{group}, in place; returns at once.", (_TENSORS, *plain), _HANDLE),
        "sparse_allreduce_async": PublicFunction(
            "Reduces a sparse tensor over all ranks; returns at once.",
            (_TENSOR, ("name", ""), ("op", ""), _SET),
            "a function that waits and returns the sparse tensor",
        ),
    }


def _gathers() -> Dict[str, PublicFunction]:
    what = "Concatenates the tensors of all ranks, in rank order, along their first dimension, which may differ"
    group = "Does so for several tensors as one"
    return {
        "allgather": PublicFunction(f"{what}.", (_TENSOR, _NAME, _SET), "a new tensor, the same on every rank"),
        "allgather_async": PublicFunction(f"{what}; returns at once.", (_TENSOR, _NAME, _SET), _HANDLE),
        "grouped_allgather": PublicFunction(f"{what}. {group}.", (_TENSORS, _NAME, _SET), "a tuple of new tensors"),
        "grouped_allgather_async": PublicFunction(
            f"{what}. {group}; returns at once.", (_TENSORS, _NAME, _SET), _HANDLE
        ),
    }


def _broadcasts() -> Dict[str, PublicFunction]:
    what = "Gives one rank's tensor to all"
    parameters = (_TENSOR, _ROOT, _NAME, _SET)
    return {
        "broadcast": PublicFunction(f"{what}.", parameters, "a new tensor, the same on every rank"),
        "broadcast_async": PublicFunction(f"{what}; returns at once.", parameters, _HANDLE),
        "broadcast_": PublicFunction(f"{what}, in place.", parameters, "the tensor"),
        "broadcast_async_": PublicFunction(f"{what}, in place; returns at once.", parameters, _HANDLE),
    }


def _exchanges() -> Dict[str, PublicFunction]:
    what = "Sends rows to every rank and receives rows from every rank, in rank order"
    parameters = (_TENSOR, ("splits", "None"), _NAME, _SET)
    pair = "the rows received and an int32 tensor that says how many came from each rank"
    return {
        "alltoall": PublicFunction(f"{what}.", parameters, f"the rows received; with ``splits``, {pair}"),
        "alltoall_async": PublicFunction(
            f"{what}; returns at once.", parameters, f"{_HANDLE}, which always gives {pair}"
        ),
    }


def _scatters() -> Dict[str, PublicFunction]:
    plain = (_NAME, _MEAN, _SET, *_SCALES)
    packed = (_NAME, _COMPRESSION, _MEAN, _SET, *_SCALES)
    what = (
        "Reduces a tensor over all ranks and leaves each with its share of the rows; the first ranks take what is left"
    )
    group = "Does so for several tensors as one"
    return {
        "reducescatter": PublicFunction(f"{what}.", (_TENSOR, *packed), "this rank's share, a new tensor"),
        "reducescatter_async": PublicFunction(f"{what}; returns at once.", (_TENSOR, *plain), _HANDLE),
        "grouped_reducescatter": PublicFunction(
            f"{what}. {group}.", (_TENSORS, *packed), "a list of this rank's shares, new tensors"
        ),
        "grouped_reducescatter_async": PublicFunction(
            f"{what}. {group}; returns at once.", (_TENSORS, *plain), _HANDLE
        ),
    }


TABLE: Dict[str, PublicFunction] = {
    **_reductions(),
    **_gathers(),
    **_broadcasts(),
    **_exchanges(),
    **_scatters(),
    "poll": PublicFunction(
        "Whether an operation has ended, well or not. Never waits.",
        (("handle", ""),),
        "True if synchronize() would not wait; ``ValueError`` for an unknown handle",
    ),
    "synchronize": PublicFunction(
        "Waits for an operation; Ctrl-C interrupts the wait, not the operation.",
        (("handle", ""),),
        "what came out of it; None for an unknown handle",
    ),
    "join": PublicFunction(
        "Says that this rank has no more data; waits until all ranks have said so, and takes part in their reductions "
        "meanwhile.",
        (("device", "-1"),),
        "the rank that joined last",
    ),
    "barrier": PublicFunction("Waits until all ranks have called it.", (_SET,), "None"),
}


def public(function: Function) -> Function:
    """Gives a function of an adapter its documentation from the table."""
    function.__doc__ = TABLE[function.__name__].documentation()
    return function


def later(name: str) -> NotImplementedError:
    """The exception for what the interface has and this version has not."""
    return NotImplementedError(f"{name} is not offered yet by this version of Farandole")
