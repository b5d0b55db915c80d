"""One collective operation, or a group of them, as an instruction of a program that JAX compiles.

The instruction has no value of its own besides its tensors: names, factors and the process set are fixed when the
program is traced. XLA calls a handler in Farandole's kernels when it comes to the instruction, which submits without
the interpreter. To XLA the instruction has a side effect, so neither is it left out on the one rank whose constants
make it look useless, nor are two of them merged.
"""

from __future__ import annotations

import collections
import functools
import inspect
import itertools
import re
from typing import Any, DefaultDict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import jax
import jax.numpy as jnp
import numpy
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from farandole.common import job, kernels, numbering
from farandole.common.arguments import wrong_dtype, wrong_dtype_remedy
from farandole.common.exceptions import make_error
from farandole.common.job import NOT_STARTED, call_before_leaving, is_started, refusal
from farandole.common.operations import ALLGATHER, ALLREDUCE, ALLTOALL, BROADCAST, REDUCESCATTER
from farandole.common.process_sets import ProcessSet
from farandole.jax.completion import finish

TARGET = "farandole_collective"
PREFIXES = {
    ALLREDUCE: "allreduce",
    ALLGATHER: "allgather",
    BROADCAST: "broadcast",
    ALLTOALL: "alltoall",
    REDUCESCATTER: "reducescatter",
}
REDUCIBLE_TYPES = {
    *("uint8", "int8", "uint16", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64"),
}
KNOWN_TYPES = {*REDUCIBLE_TYPES, "bool"}

_unnamed: DefaultDict[Tuple[int, int], Iterator[int]] = collections.defaultdict(itertools.count)
"""Numbers of calls without a name, by the jobs of this process and how many times it had joined in the last one."""


class Asked(NamedTuple):
    """The arguments of a call besides its tensors. ``name`` is the caller's; calls with None are numbered."""

    operation: int
    name: Optional[str]
    process_set: ProcessSet
    reduce_op: int = 1
    root: int = -1
    prescale: float = 1.0
    postscale: float = 1.0
    grouped: bool = False
    rows: Optional[int] = None
    """Total rows of an allgather, if the ranks do not contribute equally many."""


class SetRank(NamedTuple):
    """Where this process stands in the process set."""

    number: int
    rank: int
    size: int


def called(asked: Asked) -> str:
    """The operation, as callers know it."""
    return ("grouped_" if asked.grouped else "") + PREFIXES[asked.operation]


def is_traced(values: Sequence[Any]) -> bool:
    """Whether these are a program's values rather than arrays."""
    return any(isinstance(each, jax.core.Tracer) for each in values)


def numbered() -> str:
    """A name for a call without one. Ranks must trace the same calls in the same order for these to match. After a
    join the numbers start again, because a rank that joined early has traced fewer calls; and with each `init()`,
    because new processes may be among the members. Calls that are traced before an elastic job trains need names.
    """
    joins = job.runtime.joins
    number = next(_unnamed[numbering.jobs(), joins])
    return f"traced.{joins}.{number}" if joins else f"traced.{number}"


def set_rank_in(process_set: ProcessSet) -> SetRank:
    """``HorovodInternalError`` before ``init()``; ``ValueError`` where this process is not a member."""
    if not is_started():
        raise refusal(NOT_STARTED)
    number, rank, size = process_set.process_set_id, None, None
    if number is not None:
        rank, size = process_set.rank(), process_set.size()
    if number is None or rank is None or size is None:
        raise ValueError(f"the process set is not registered: {process_set}")
    return SetRank(number, rank, size)


def put(asked: Asked, tensors: Sequence[Any]) -> Tuple[Any, ...]:
    """Adds the instruction to the program that is being traced. Returns one result for each tensor."""
    set_rank = set_rank_in(asked.process_set)
    for each in tensors:
        _check(asked, each)
    base = called(asked)
    name = f"{base}.{asked.name or numbered()}"
    if asked.grouped and len(tensors) == 1:
        name += "_1of1"
    return tuple(
        _instruction.bind(
            *tensors,
            name=name,
            operation=asked.operation,
            reduce_op=int(asked.reduce_op),
            root=int(asked.root),
            prescale=float(asked.prescale),
            postscale=float(asked.postscale),
            set_rank=set_rank,
            rows=asked.rows,
        )
    )


def _check(asked: Asked, tensor: Any) -> None:
    kind = PREFIXES[asked.operation]
    if asked.operation in (ALLGATHER, ALLTOALL) and not tensor.ndim:
        raise make_error("invalid argument", f"{kind} {asked.name or '(without a name)'}: a scalar has no rows")
    if asked.operation == REDUCESCATTER and not tensor.ndim:
        raise ValueError(f"{kind} {asked.name or '(without a name)'}: a scalar has no rows")
    dtype = str(tensor.dtype)
    if dtype not in (REDUCIBLE_TYPES if asked.operation in (ALLREDUCE, REDUCESCATTER) else KNOWN_TYPES):
        remedy = wrong_dtype_remedy(kind, dtype, "tensor.astype('{}')")
        raise wrong_dtype(kind, asked.name, dtype, remedy)


# ---- definition of the instruction for JAX


def _rows_out(operation: int, rows: int, set_rank: SetRank, total: Optional[int]) -> int:
    if operation == ALLGATHER:
        return rows * set_rank.size if total is None else total
    if operation == REDUCESCATTER:
        each, left = divmod(rows, set_rank.size)
        return each + (set_rank.rank < left)
    if operation == ALLTOALL and rows % set_rank.size:
        raise ValueError(
            f"alltoall on rank {set_rank.rank}: {rows} rows cannot be dealt out evenly to {set_rank.size} ranks; "
            "give splits, outside jit"
        )
    return rows


def _shapes(*tensors: Any, operation: int, set_rank: SetRank, rows: Optional[int], **_: Any) -> Any:
    if operation in (ALLREDUCE, BROADCAST):
        return list(tensors)
    return [
        each.update(shape=(_rows_out(operation, each.shape[0], set_rank, rows), *each.shape[1:])) for each in tensors
    ]


@functools.lru_cache(maxsize=256)
def _alone(settings: Tuple[Tuple[str, Any], ...]) -> Any:
    return jax.jit(functools.partial(_instruction.bind, **dict(settings)))


def _run_alone(*tensors: Any, **settings: Any) -> Any:
    """Runs the instruction outside a program, compiled as a program of its own."""
    return _alone(tuple(sorted(settings.items())))(*tensors)


_handler = jax.ffi.ffi_lowering(TARGET, has_side_effect=True)


def _are_exclusive(place: Sequence[str], other: Sequence[str]) -> bool:
    """Whether the places lie in two branches of one ``cond``, so that only one of them is run."""
    differing = next((pair for pair in zip(place, other) if pair[0] != pair[1]), ("", ""))
    return all(re.fullmatch(r"branch_\d+_fun", each) for each in differing)


def _name_in_program(ctx: Any, name: str) -> str:
    """The name of the instruction that is being lowered. ``jax.checkpoint`` and second derivatives repeat an operation
    in one program, whose instructions may run at the same time: each further one gets a number. The numbers are equal
    on all ranks, since JAX lowers the same program in the same order.
    """
    place = str(ctx.name_stack).split("/")
    earlier: List[Tuple[Sequence[str], int]]
    earlier = ctx.module_context.cached_primitive_lowerings.setdefault((TARGET, name), [])
    taken = {number for other, number in earlier if not _are_exclusive(place, other)}
    number = next(each for each in itertools.count(1) if each not in taken)
    earlier.append((place, number))
    return name if number == 1 else f"{name}.{number}"


def _lower(ctx: Any, *tensors: Any, set_rank: SetRank, rows: Optional[int], **settings: Any) -> Any:
    numbers = {key: numpy.int32(settings[key]) for key in ("operation", "reduce_op", "root")}
    factors = {key: numpy.float64(settings[key]) for key in ("prescale", "postscale")}
    return _handler(
        ctx,
        *tensors,
        name=_name_in_program(ctx, settings["name"]),
        set=numpy.int32(set_rank.number),
        is_even=numpy.int32(rows is None),
        **numbers,
        **factors,
    )


def _vectorize(tensors: Sequence[Any], axes: Sequence[Any], **settings: Any) -> Any:
    """Submits a whole batch at once. Where rows count, they stay the first dimension and the batch is the second."""
    size = next(each.shape[axis] for each, axis in zip(tensors, axes) if axis is not None)
    place = 0 if settings["operation"] in (ALLREDUCE, BROADCAST) else 1
    moved = [
        jnp.repeat(jnp.expand_dims(each, place), size, place) if axis is None else jnp.moveaxis(each, axis, place)
        for each, axis in zip(tensors, axes)
    ]
    outputs = _instruction.bind(*moved, **settings)
    return outputs, [place] * len(outputs)


_instruction = Primitive(TARGET)
_instruction.multiple_results = True
_instruction.def_impl(_run_alone)
_instruction.def_abstract_eval(_shapes)
batching.primitive_batchers[_instruction] = _vectorize
# Where JAX can reuse the lowering of one instruction for the next, it must not: their names differ.
_once = {"cacheable": False} if "cacheable" in inspect.signature(mlir.register_lowering).parameters else {}
mlir.register_lowering(_instruction, _lower, platform="cpu", **_once)
jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(kernels.connect("jax").farandole_jax_collective), platform="cpu")
call_before_leaving(finish)
