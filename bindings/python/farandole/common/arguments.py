"""Explains arguments that an operation cannot take: the value passed, the values accepted, and the remedy.

The call path of a tensor makes no checks of its own. A lower layer fails first, and the adapter then calls these
functions to find the reason. Code outside that call path (optimizers, groups, compressors) calls them directly. Wrong
types are ``TypeError``, wrong values ``ValueError``.
"""

from __future__ import annotations

import operator
import sys
from typing import Any, Callable, List, Optional, Sequence, Tuple

from farandole.common.process_sets import ProcessSet

FAILURES = (AttributeError, TypeError, ValueError)
"""The exceptions that code raises for an argument of a wrong type."""

_REDUCED_TYPES = "uint8, int8, uint16, int16, int32, int64, float16, bfloat16, float32 and float64"
_MOVED_TYPES = f"bool, {_REDUCED_TYPES}"


# ---- words


def kind(value: Any) -> str:
    """The class of a value as its users know it: ``numpy.ndarray``, ``list``, ``None``."""
    if value is None:
        return "None"
    own = value if isinstance(value, type) else type(value)
    module = own.__module__
    package = module.partition(".")[0]
    if getattr(sys.modules.get(package), own.__qualname__, None) is own:
        module = package
    name = own.__qualname__ if module in ("builtins", "__main__") else f"{module}.{own.__qualname__}"
    return f"the class {name}" if own is value else name


def shown(value: Any) -> str:
    """The class of a value, and the value where it is short: ``the str 'fp16'``."""
    return f"the {kind(value)} {value!r}" if isinstance(value, (bool, int, float, str)) else kind(value)


def head(operation: str, name: Any) -> str:
    """How a message begins: the tensor's full name where it has one, and the operation."""
    public = _public(operation)
    return f"{public}.{name}: {public}" if isinstance(name, str) and name else public


def _public(operation: str) -> str:
    """An operation as callers know it: MXNet's have a prefix of their own in the runtime."""
    return operation[len("horovod_") :] if operation.startswith("horovod_") else operation


def member_name(name: Any, index: int, count: int) -> Optional[str]:
    """The name of one tensor of a group, as the runtime makes it."""
    if isinstance(name, list):
        return str(name[index])
    return None if name is None else f"{name}_{index + 1}of{count}"


# ---- arguments of every operation


def require_process_set(operation: str, name: Any, process_set: Any) -> None:
    """``TypeError`` unless it is a ``ProcessSet``."""
    if not isinstance(process_set, ProcessSet):
        raise TypeError(
            f"{head(operation, name)} takes a ProcessSet as process_set, not {shown(process_set)}; pass what "
            "add_process_set() returned, or global_process_set"
        )


def require_name(operation: str, name: Any) -> None:
    """``TypeError`` unless it is text or None, ``ValueError`` if it would be cut off where texts end at a NUL."""
    if isinstance(name, str) and "\0" in name:
        raise ValueError(f"a name cannot hold the character NUL: {name!r}")
    if name is not None and not isinstance(name, str):
        raise TypeError(
            f"{_public(operation)} takes a str or None as name, not {shown(name)}; pass a name that is the "
            "same on all ranks"
        )


def wrong_dtype(operation: str, name: Any, dtype: str, remedy: str) -> ValueError:
    """A type of elements that the operation cannot take."""
    types = _REDUCED_TYPES if "reduce" in operation else _MOVED_TYPES
    return ValueError(f"{head(operation, name)} takes tensors of {types}, not {dtype}; {remedy}")


def wrong_dtype_remedy(operation: str, dtype: str, conversion: str) -> str:
    """The remedy for an unsupported element type; ``conversion`` is the framework's expression for a conversion."""
    if "bool" in dtype:
        return f"convert it with {conversion.format('uint8')} (allgather, broadcast and alltoall take bool as it is)"
    if "complex" in dtype:
        return "pass its real and imaginary parts as floating point numbers"
    return f"convert it with {conversion.format('int64' if 'int' in dtype else 'float32')}"


def listed(operation: str, name: Any, tensors: Any) -> Sequence[Any]:
    """The tensors of a grouped operation. ``TypeError`` for one tensor, which would otherwise be split into its rows,
    and for anything else that is not a list of tensors."""
    if isinstance(tensors, (list, tuple)):
        return tensors
    if hasattr(tensors, "shape") and hasattr(tensors, "dtype"):
        single = operation.replace("grouped_", "")
        remedy = "pass [tensor]" + ("" if single == operation else f", or call {single}")
        raise TypeError(f"{head(operation, name)} takes a list of tensors, not one {kind(tensors)}; {remedy}")
    if isinstance(tensors, dict):
        raise TypeError(
            f"{head(operation, name)} takes a list of tensors, not dict; pass list(tensors.values()), in an order that "
            "is the same on all ranks"
        )
    if isinstance(tensors, (str, bytes)) or not hasattr(tensors, "__iter__"):
        raise TypeError(f"{head(operation, name)} takes a list of tensors, not {shown(tensors)}")
    return list(tensors)


def row_counts(operation: str, name: Any, splits: Any) -> Optional[List[int]]:
    """Rows for each rank, from a list or a flat array of whole numbers; None for equal parts."""
    if splits is None:
        return None
    try:
        return [operator.index(each) for each in splits] or None
    except TypeError:
        raise ValueError(
            f"{head(operation, name)} takes splits of whole numbers, one for each rank, as a list or a flat array of "
            f"int32 or int64, not {splits!r}"
        ) from None


def type_of_counts(rows: Sequence[int]) -> str:
    """The type of an array of numbers of rows: int32, as in Horovod, or int64 if one of them needs it."""
    return "int32" if max(rows, default=0) < 2**31 else "int64"


# ---- compressors


def require_compressor(
    operation: str, name: Any, compression: Any, problem: Callable[[str], Exception] = TypeError
) -> None:
    """``TypeError``, or another problem, unless it has ``compress``."""
    if callable(getattr(compression, "compress", None)):
        return
    if compression in ("none", "fp16", "bf16"):
        remedy = f"pass Compression.{compression}"
    elif compression is None:
        remedy = "pass Compression.none, or leave it out"
    elif isinstance(compression, type):
        remedy = "pass an instance of a class that has compress(tensor), or a compressor such as Compression.fp16"
    elif callable(compression):
        remedy = f"call it: Compression.{getattr(compression, '__name__', 'powersgd')}()"
    else:
        remedy = "pass a compressor such as Compression.fp16"
    raise problem(f"{head(operation, name)} takes a compressor, and {shown(compression)} is no compressor; {remedy}")


def require_reduction(owner: str, compression: Any, process_set: Any) -> None:
    """``ValueError`` unless an optimizer or tape was given a compressor, ``TypeError`` unless a process set."""
    require_compressor(owner, None, compression, ValueError)
    require_process_set(owner, None, process_set)


def pack(operation: str, name: Any, compression: Any, tensor: Any) -> Tuple[Any, Any]:
    """Compresses a tensor. Returns the tensor to send and the context for ``decompress``.

    ``TypeError`` if the compressor does not return such a pair. The type is checked because a tensor of two rows
    could be unpacked like a pair.
    """
    require_compressor(operation, name, compression)
    pair = compression.compress(tensor)
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        own = compression.__name__ if isinstance(compression, type) else type(compression).__name__
        got = f"a {type(pair).__name__} of {len(pair)}" if isinstance(pair, (tuple, list)) else kind(pair)
        raise TypeError(
            f"{head(operation, name)} needs a pair from {own}.compress(), the tensor to send and the context "
            f"for decompress(), not {got}; return (tensor, None) if decompress() needs no context"
        )
    return pair[0], pair[1]
