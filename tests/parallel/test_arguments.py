"""Errors for arguments of a wrong type or value. Every message names the operation, the tensor if it has a name, the
argument and the remedy; the calling rank raises the error before it sends anything.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, Callable, Dict, List, Sequence, Tuple, Type

import farandole.numpy as on_numpy
import horovod.torch as hvd
import numpy
import pytest
import torch

Row = Tuple[Callable[[], Any], Type[BaseException], Sequence[str]]

INTERNALS = (
    "DLPack",
    "nanobind",
    "incompatible function",
    "empty_like",
    "built-in operation",
    "has no attribute",
    "MRO",
)


def ones(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype)


class Unpaired:
    """A compressor that returns no context for ``decompress``. A tensor of two rows could be mistaken for a pair."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    @staticmethod
    def decompress(tensor: torch.Tensor, context: Any) -> torch.Tensor:
        return tensor


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)


def optimizer(net: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(net.parameters(), lr=0.1)


def wrapped(**options: Any) -> torch.optim.Optimizer:
    return hvd.DistributedOptimizer(optimizer(Net()), **options)


def step_of(compression: Any) -> None:
    """Makes a step whose gradients go through a compressor."""
    net = Net()
    own = hvd.DistributedOptimizer(optimizer(net), named_parameters=net.named_parameters(), compression=compression)
    net.layer(ones(1, 2)).sum().backward()
    own.step()


def used_twice() -> None:
    compressor = hvd.Compression.powersgd()
    first = wrapped(compression=compressor)
    assert first is not None
    wrapped(compression=compressor)


SINGLE: Dict[str, Callable[..., Any]] = {
    "allreduce": hvd.allreduce,
    "allreduce_": hvd.allreduce_,
    "allreduce_async": hvd.allreduce_async,
    "allreduce_async_": hvd.allreduce_async_,
    "allgather": hvd.allgather,
    "allgather_async": hvd.allgather_async,
    "broadcast": lambda tensor, **options: hvd.broadcast(tensor, 0, **options),
    "broadcast_": lambda tensor, **options: hvd.broadcast_(tensor, 0, **options),
    "broadcast_async_": lambda tensor, **options: hvd.broadcast_async_(tensor, 0, **options),
    "alltoall": hvd.alltoall,
    "alltoall_async": hvd.alltoall_async,
    "reducescatter": hvd.reducescatter,
    "reducescatter_async": hvd.reducescatter_async,
}
GROUPED: Dict[str, Callable[..., Any]] = {
    name: getattr(hvd, name)
    for name in (
        *("grouped_allreduce", "grouped_allreduce_", "grouped_allreduce_async", "grouped_allreduce_async_"),
        *("grouped_allgather", "grouped_allgather_async", "grouped_reducescatter", "grouped_reducescatter_async"),
    )
}
REDUCED_TYPES = "uint8, int8, uint16, int16, int32, int64, float16, bfloat16, float32 and float64"


def plain(function: str) -> str:
    """The name of a function's operation."""
    return function.rstrip("_").replace("_async", "")


def rows_of_singles() -> Dict[str, Row]:
    rows: Dict[str, Row] = {}
    for function, call in SINGLE.items():
        operation = plain(function)

        def row(
            case: str, tensor: Any, kind: Type[BaseException], *words: str, call: Any = call, function: str = function
        ) -> None:
            named = f"{plain(function)}.grad: {plain(function)}"
            rows[f"{function} {case}"] = (lambda: call(tensor, name="grad"), kind, (named, *words))

        takes = f"{operation} takes a torch.Tensor, not "
        row("numpy", numpy.ones(3), TypeError, takes + "numpy.ndarray", "torch.from_numpy()", "farandole.numpy")
        row("list", [1.0, 2.0], TypeError, takes + "list", "torch.tensor()")
        row("float", 1.0, TypeError, takes + "float", "torch.tensor()")
        row("None", None, TypeError, takes + "None", "zeros")
        if "reduce" in operation:
            types = REDUCED_TYPES
            row("complex", ones(4, dtype=torch.complex64), ValueError, types, "torch.complex64", "torch.view_as_real")
            if hasattr(torch, "float8_e4m3fn"):
                float8 = ones(4).to(torch.float8_e4m3fn)
                row("float8", float8, ValueError, types, "torch.float8_e4m3fn", "torch.float32")
            row("bool", ones(4) > 0, ValueError, types, "torch.bool", "tensor.to(torch.uint8)")
        sparse = ("sparse_allreduce_async()", "sparse_as_dense=True") if operation == "allreduce" else ()
        row("sparse", torch.eye(3).to_sparse(), ValueError, "torch.sparse_coo", "to_dense()", *sparse)
        row("meta", torch.ones(4, device="meta"), ValueError, "meta device", "to_empty")
        remedy = "copy_()" if function.endswith("_") else "tensor.contiguous()"
        for case, dtype in {"transposed": torch.float32, "transposed complex": torch.complex64}.items():
            wrong = ones(3, 4, dtype=dtype).t()
            if dtype == torch.float32 or "reduce" not in operation:
                row(case, wrong, ValueError, "[4, 3]", "[1, 4]", "not contiguous", remedy)
        rows[f"{function} process_set"] = (
            lambda call=call: call(ones(4), name="grad", process_set=3),
            TypeError,
            (f"{operation}.grad: {operation} takes a ProcessSet as process_set, not the int 3", "add_process_set()"),
        )
        rows[f"{function} name"] = (
            lambda call=call: call(ones(4), name=5),
            TypeError,
            (f"{operation} takes a str or None as name, not the int 5",),
        )
    return rows


def rows_of_groups() -> Dict[str, Row]:
    rows: Dict[str, Row] = {}
    for function, call in GROUPED.items():
        operation = plain(function)
        single = operation.replace("grouped_", "")
        head = f"{operation}.grad: {operation} takes a list of tensors, not "

        def row(
            case: str, value: Any, kind: Type[BaseException], *words: str, call: Any = call, function: str = function
        ) -> None:
            rows[f"{function} {case}"] = (lambda: call(value, name="grad"), kind, words)

        row("tensor", ones(3, 2), TypeError, head + "one torch.Tensor", "[tensor]", f"or call {single}")
        row("array", numpy.ones(3), TypeError, head + "one numpy.ndarray")
        row("dict", {"a": ones(2)}, TypeError, head + "dict", "list(tensors.values())")
        row("None", None, TypeError, head + "None")
        row("float", 1.0, TypeError, head + "the float 1.0")
        member = f"{operation}.grad_2of2: {operation}"
        row("a NumPy member", [ones(2), numpy.ones(2)], TypeError, f"{member} takes a torch.Tensor, not numpy.ndarray")
        if "reduce" in operation:
            row("a complex member", [ones(2), ones(2, dtype=torch.complex64)], ValueError, member, "torch.complex64")
        row("a sparse member", [ones(2), torch.eye(2).to_sparse()], ValueError, member, "sparse")
        row("a transposed member", [ones(2), ones(3, 4).t()], ValueError, member, "not contiguous")
        rows[f"{function} process_set"] = (
            lambda call=call: call([ones(4)], name="grad", process_set=3),
            TypeError,
            (f"{operation} takes a ProcessSet as process_set, not the int 3",),
        )
        rows[f"{function} name"] = (
            lambda call=call: call([ones(4)], name=5),
            TypeError,
            (f"{operation} takes a str or None as name, not the int 5",),
        )
    return rows


def rows_of_compressors() -> Dict[str, Row]:
    rows: Dict[str, Row] = {}
    wrong: List[Tuple[str, Any, Sequence[str]]] = [
        ("fp16 as text", "fp16", ("takes a compressor, and the str 'fp16' is no compressor", "pass Compression.fp16")),
        ("None", None, ("None is no compressor", "Compression.none")),
        ("a function that is not called", hvd.Compression.powersgd, ("is no compressor", "Compression.powersgd()")),
        ("no pair", Unpaired, ("needs a pair from Unpaired.compress()", "not torch.Tensor", "(tensor, None)")),
    ]
    for case, compression, words in wrong:
        for function in ("allreduce", "reducescatter"):
            head = f"{function}.grad: {function}"
            rows[f"{function} compressed by {case}"] = (
                lambda function=function, compression=compression: getattr(hvd, function)(
                    ones(2, 2), name="grad", compression=compression
                ),
                TypeError,
                (head, *words),
            )
            rows[f"grouped_{function} compressed by {case}"] = (
                lambda function=function, compression=compression: getattr(hvd, f"grouped_{function}")(
                    [ones(2, 2)], name="grad", compression=compression
                ),
                TypeError,
                (f"grouped_{function}.grad: grouped_{function}", *words),
            )
        if compression is not Unpaired:
            rows[f"DistributedOptimizer compressed by {case}"] = (
                lambda compression=compression: wrapped(compression=compression),
                ValueError,
                ("DistributedOptimizer", *words),
            )
    narrow, own = hvd.Compression.fp16, hvd.Compression.powersgd
    not_array = "allreduce takes a torch.Tensor, not numpy.ndarray"
    rows["a sparse tensor for a compressor with a memory"] = (
        lambda: hvd.allreduce(torch.eye(3).to_sparse(), name="grad", compression=own()),
        ValueError,
        ("allreduce.grad: allreduce takes dense tensors", "sparse_allreduce_async()"),
    )
    rows["an array to be narrowed"] = (
        lambda: hvd.allreduce(numpy.ones(3), compression=narrow),
        TypeError,
        (not_array,),
    )
    rows["an array for a compressor with a memory"] = (
        lambda: hvd.allreduce(numpy.ones(3), name="grad", compression=own()),
        TypeError,
        (f"allreduce.grad: {not_array}",),
    )
    rows["two optimizers of one compressor"] = (
        used_twice,
        ValueError,
        ("DistributedOptimizer", "PowerSGDCompressor is used by another optimizer", "a compressor for each optimizer"),
    )
    return rows


def rows_of_optimizers() -> Dict[str, Row]:
    def named(value: Callable[[Net], Any]) -> Callable[[], Any]:
        def call() -> Any:
            net = Net()
            return hvd.DistributedOptimizer(optimizer(net), named_parameters=value(net))

        return call

    pairs = "DistributedOptimizer takes pairs (name, parameter) as named_parameters, not "
    tuples = "takes a sequence of tuples (name, parameter) as named_parameters, not of "
    takes = "DistributedOptimizer takes a torch.optim.Optimizer, not "
    remedy = "model.named_parameters()"
    return {
        "named_parameters=model": (named(lambda net: net), TypeError, (pairs + "test_arguments.Net", remedy)),
        "named_parameters=sequential": (named(torch.nn.Sequential), TypeError, (pairs, "Sequential", remedy)),
        "named_parameters not called": (named(lambda net: net.named_parameters), TypeError, (pairs + "method", remedy)),
        "named_parameters=parameters()": (
            named(lambda net: net.parameters()),
            ValueError,
            (tuples, "Parameter", remedy),
        ),
        "named_parameters=state_dict()": (named(lambda net: net.state_dict()), ValueError, (tuples + "str", remedy)),
        "named_parameters of another model": (
            named(lambda net: Net().named_parameters()),
            ValueError,
            ("named_parameters does not name 2 parameters", "[2, 2]"),
        ),
        "wrapped twice": (
            lambda: hvd.DistributedOptimizer(wrapped()),
            ValueError,
            ("was given a SGD that is a DistributedOptimizer already", "once"),
        ),
        "wrapped twice for Adasum": (
            lambda: hvd.DistributedOptimizer(wrapped(), op=hvd.Adasum),
            ValueError,
            ("was given a SGD that is a DistributedOptimizer already", "once"),
        ),
        "a model for an optimizer": (
            lambda: hvd.DistributedOptimizer(Net()),
            TypeError,
            (takes + "test_arguments.Net",),
        ),
        "a class for an optimizer": (
            lambda: hvd.DistributedOptimizer(torch.optim.SGD),
            TypeError,
            (takes + "the class", "SGD"),
        ),
        "an optimizer's process set": (
            lambda: wrapped(process_set=3),
            TypeError,
            ("DistributedOptimizer takes a ProcessSet as process_set, not the int 3",),
        ),
        "an optimizer's op": (lambda: wrapped(op="sum"), ValueError, ("the str 'sum' is no reduction",)),
        "broadcast_parameters(model)": (
            lambda: hvd.broadcast_parameters(Net(), 0),
            ValueError,
            ("broadcast_parameters takes a dict", "not test_arguments.Net", "state_dict()"),
        ),
        "broadcast_optimizer_state(model)": (
            lambda: hvd.broadcast_optimizer_state(Net(), 0),
            TypeError,
            ("broadcast_optimizer_state takes a torch.optim.Optimizer, not test_arguments.Net",),
        ),
    }


def rows_of_other_arguments() -> Dict[str, Row]:
    handle = "takes a handle, which is an int, not "
    rows: Dict[str, Row] = {
        "synchronize(tensor)": (lambda: hvd.synchronize(ones(2)), ValueError, (f"synchronize {handle}torch.Tensor",)),
        "synchronize(None)": (lambda: hvd.synchronize(None), ValueError, (f"synchronize {handle}None",)),
        "poll(tensor)": (lambda: hvd.poll(ones(2)), ValueError, (f"poll {handle}torch.Tensor", "allreduce_async")),
        "poll(None)": (lambda: hvd.poll(None), ValueError, (f"poll {handle}None",)),
        "op='sum'": (lambda: hvd.allreduce(ones(2), op="sum"), ValueError, ("allreduce", "'sum' is no reduction")),
        "prescale_factor='a'": (
            lambda: hvd.allreduce(ones(2), prescale_factor="a"),
            TypeError,
            ("allreduce takes numbers as prescale_factor", "the str 'a'"),
        ),
        "root_rank='a'": (
            lambda: hvd.broadcast(ones(2), "a"),
            TypeError,
            ("broadcast takes the number of a rank as root_rank, not the str 'a'",),
        ),
        "barrier(3)": (
            lambda: hvd.barrier(3),
            TypeError,
            ("barrier takes a ProcessSet as process_set, not the int 3",),
        ),
        "broadcast_object": (lambda: hvd.broadcast_object(1, process_set=3), TypeError, ("not the int 3",)),
        "allgather_object": (lambda: hvd.allgather_object(1, process_set=3), TypeError, ("not the int 3",)),
        "splits of floats": (
            lambda: hvd.alltoall(ones(2), torch.ones(hvd.size()), name="rows"),
            ValueError,
            ("alltoall.rows: alltoall takes splits of int32 or int64, not torch.float32", "splits.to(torch.int32)"),
        ),
        "splits of fractions": (
            lambda: hvd.alltoall(ones(2), [0.5] * hvd.size(), name="rows"),
            ValueError,
            ("alltoall.rows: alltoall takes splits of whole numbers", "0.5"),
        ),
        "sparse_allreduce_async of a dense tensor": (
            lambda: hvd.sparse_allreduce_async(ones(2), "grad", hvd.Sum),
            ValueError,
            ("sparse_allreduce.grad: sparse_allreduce takes tensors in the layout torch.sparse_coo", "call allreduce"),
        ),
        "sparse_allreduce_async of an array": (
            lambda: hvd.sparse_allreduce_async(numpy.ones(2), "grad", hvd.Sum),
            TypeError,
            ("sparse_allreduce takes a torch.Tensor, not numpy.ndarray",),
        ),
    }
    for module in (hvd, on_numpy):
        tensor = ones(2) if module is hvd else numpy.ones(2)
        for function in ("allreduce", "allreduce_", "allreduce_async", "allreduce_async_"):
            for given, operation, value in (
                (tensor, function, hvd.Sum),
                (tensor, function, hvd.Average),
                (tensor, function, "sum"),
                (tensor, function, 1.0),
                ([tensor], f"grouped_{function}", hvd.Sum),
            ):
                call = getattr(module, operation)
                rows[f"{module.__name__} {operation}(tensor, {value!r})"] = (
                    lambda call=call, given=given, value=value: call(given, value),
                    TypeError,
                    (
                        f"{plain(operation)} takes True, False or None as average, not the ",
                        repr(value),
                        {hvd.Sum: "op=Sum", hvd.Average: "op=Average"}.get(value, "op="),
                    ),
                )
    return rows


def rows_of_arrays() -> Dict[str, Row]:
    read_only = numpy.ones(3)
    read_only.flags.writeable = False
    of = on_numpy
    head = "allreduce.grad: allreduce"
    return {
        "numpy None": (lambda: of.allreduce(None, name="grad"), TypeError, (head, "not None")),
        "numpy text": (lambda: of.allgather("abc", name="grad"), TypeError, ("allgather.grad: allgather", "not str")),
        "numpy complex": (
            lambda: of.allreduce(numpy.ones(3, "complex64"), name="grad"),
            ValueError,
            (head, REDUCED_TYPES, "complex64"),
        ),
        "numpy bool": (
            lambda: of.allreduce(numpy.ones(3, "bool"), name="grad"),
            ValueError,
            (head, "bool", "astype('uint8')"),
        ),
        "numpy big-endian": (lambda: of.allreduce(numpy.ones(3, ">f4"), name="grad"), ValueError, (head, "byte order")),
        "numpy in a list": (lambda: of.allreduce_([1.0], name="grad"), TypeError, (head, "not list")),
        "numpy read-only": (lambda: of.allreduce_(read_only, name="grad"), ValueError, (head, "read-only")),
        "numpy transposed": (
            lambda: of.allreduce_(numpy.ones((3, 4)).T, name="grad"),
            ValueError,
            (head, "[4, 3]", "not contiguous", "ascontiguousarray"),
        ),
        "numpy group of one array": (
            lambda: of.grouped_allreduce(numpy.ones((3, 4)), name="grad"),
            TypeError,
            ("grouped_allreduce takes a list of tensors, not one numpy.ndarray", "or call allreduce"),
        ),
        "numpy process_set": (
            lambda: of.reducescatter(numpy.ones(4), name="grad", process_set=3),
            TypeError,
            ("reducescatter takes a ProcessSet as process_set, not the int 3",),
        ),
        "numpy name": (lambda: of.allgather(numpy.ones(4), name=5), TypeError, ("str or None as name, not the int 5",)),
        "numpy splits": (
            lambda: of.alltoall(numpy.ones(4), numpy.ones(of.size())),
            ValueError,
            ("alltoall takes splits of whole numbers",),
        ),
        "numpy synchronize(array)": (
            lambda: of.synchronize(numpy.ones(2)),
            ValueError,
            ("synchronize takes a handle, which is an int, not numpy.ndarray",),
        ),
    }


TABLES: Dict[str, Dict[str, Row]] = {
    "one tensor": rows_of_singles(),
    "groups": rows_of_groups(),
    "compressors": rows_of_compressors(),
    "optimizers": rows_of_optimizers(),
    "other arguments": rows_of_other_arguments(),
    "arrays": rows_of_arrays(),
}


def problem_of(row: Row) -> str:
    """The difference between the error of a call and the expected error; empty if there is none."""
    call, kind, words = row
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = call()
    except Exception as raised:
        text = str(raised)
        missing = [word for word in words if word not in text]
        internals = [word for word in (*INTERNALS, "\n") if word in text]
        if type(raised) is kind and not missing and not internals:
            return ""
        return f"{type(raised).__name__} instead of {kind.__name__}, without {missing}, with {internals}: {text}"
    return f"returned {result!r}"


@pytest.mark.parametrize("table", list(TABLES))
def test_wrong_arguments_raise_errors_that_name_the_remedy(table: str) -> None:
    problems = {case: problem_of(row) for case, row in TABLES[table].items()}
    assert not {case: problem for case, problem in problems.items() if problem}


def test_a_compressor_that_returns_no_pair_fails_with_the_gradients_name(size: int) -> None:
    """The error comes in the backward pass, which calls the compressor first."""
    if size > 1:
        with pytest.raises(TypeError, match=r"allreduce\.layer\.(weight|bias): allreduce needs a pair from Unpaired"):
            step_of(Unpaired)


def test_valid_calls_succeed_after_refused_calls(name: str, size: int) -> None:
    """No refused call was sent or counted as an unnamed one."""
    assert hvd.allreduce(ones(3), name="grad", op=hvd.Sum).tolist() == [size] * 3
    assert hvd.allreduce(ones(3), op=hvd.Sum).tolist() == [size] * 3
    assert hvd.synchronize(2**40) is None and hvd.synchronize(-1) is None


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_splits_may_have_type_int32_or_int64(dtype: torch.dtype, name: str, rank: int, size: int) -> None:
    rows = torch.tensor([1 + source for source in range(size)], dtype=dtype)
    own = torch.arange(int(rows.sum()), dtype=torch.float32)
    for package, splits, tensor in (
        (hvd, rows, own),
        (hvd, rows.numpy(), own),
        (hvd, rows.tolist(), own),
        (on_numpy, rows.numpy(), own.numpy()),
    ):
        received, counts = package.alltoall(tensor, splits, name=name)
        assert str(counts.dtype).endswith("int32") and counts.tolist() == [rank + 1] * size
        assert received.tolist()[: rank + 1] == own[math.comb(rank + 1, 2) :][: rank + 1].tolist()


def test_a_bool_as_average_still_works_with_a_deprecation_warning(name: str, size: int) -> None:
    with pytest.warns(DeprecationWarning):
        assert hvd.allreduce(ones(2), True, name).tolist() == [1.0, 1.0]
    with pytest.warns(DeprecationWarning):
        assert hvd.allreduce(ones(2), False, name).tolist() == [size, size]
