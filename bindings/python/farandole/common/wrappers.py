"""Makes the public functions of an adapter from the rows of its package in the table of signatures.

An adapter writes the body of a function, with the bare names of its parameters; ``public_in`` adds what the table says
of them: their defaults and types, and the documentation. The function stays the one that was written, so a call costs
nothing more, and tracebacks, debuggers, AutoGraph and Dynamo see its source.

Where there is nothing but a tensor to be handed in, ``wrapper_in`` writes the body as well: it makes the function of a
short text, as ``dataclasses`` and ``namedtuple`` do. ``inspect.getsource``, debuggers and the
module ``traceback`` show that text.
"""

from __future__ import annotations

import linecache
import sys
import typing
from types import FunctionType
from typing import Any, Callable, Dict

from farandole.common import operations, signatures
from farandole.common.parameter_types import types_of

Function = Callable[..., Any]

_REDUCED = "average, op, prescale_factor, postscale_factor"
_SCATTERED = "op, prescale_factor, postscale_factor"
_REQUESTS: Dict[str, str] = {
    "allreduce": f"reduction({_REDUCED})",
    "grouped_allreduce": f"grouped_reduction({_REDUCED})",
    "allgather": "ALLGATHER_AT_ONCE",
    "allgather_async": "ALLGATHER",
    "grouped_allgather": "GROUPED_ALLGATHER",
    "broadcast": "broadcasts[root_rank]",
    "alltoall": "ALLTOALL_AT_ONCE",
    "alltoall_async": "ALLTOALL",
    "reducescatter": f"scatters[{_SCATTERED}]",
    "grouped_reducescatter": f"grouped_scatters[{_SCATTERED}]",
}
"""What an operation asks of the runtime, in names of ``calls``; by the function, or by the operation."""


def public_in(package: str, **defaults: Any) -> Callable[[Function], Function]:
    """Makes a decorator that gives a function of the package its signature and its documentation from the tables.

    The function names its parameters as its row does. ``defaults`` are what the rows call by names of the package's
    own, such as ``Compression``.
    """

    def decorate(function: Function) -> Function:
        assert isinstance(function, FunctionType)
        name = function.__name__
        row = signatures.row(package, name)
        code = function.__code__
        written = code.co_varnames[: code.co_argcount]
        assert written == tuple(each for each, _ in row), f"{package}.{name} takes {', '.join(written)}, unlike its row"
        namespace = {**signatures.constants(), **defaults}
        function.__defaults__ = tuple(eval(default, namespace) for _, default in row if default) or None
        function.__annotations__ = types_of(package, name)
        return _documented(function)

    return decorate


def wrapper_in(package: str, module: str) -> Callable[[str, Function], Function]:
    """Makes a maker of functions that hand a tensor in; ``module`` is the module that they belong to.

    The maker takes a function's name, and what starts the operation: given a request, the operation's name, the tensor
    and the process set, and for an alltoall the splits, that returns a call. The function waits for the call, or, where
    its own name says that it is asynchronous, keeps it and returns its handle.
    """

    def make(name: str, start: Function) -> Function:
        text = _source_of(package, name, start.__name__)
        place = f"<{module}.{name}>"
        # Never out of date: linecache asks for no file where there is no time of change.
        linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
        namespace = {**_namespace(), start.__name__: start, "__name__": module}
        framework = sys.modules.get(package.partition(".")[0])
        if framework is not None:
            namespace.setdefault(framework.__name__, framework)
        exec(compile(text, place, "exec", flags=annotations.compiler_flag), namespace)
        return _documented(namespace[name])

    return make


def _source_of(package: str, name: str, start: str) -> str:
    operation = name.replace("_async", "").rstrip("_")
    row = signatures.row(package, name)
    types = types_of(package, name)
    parameters = [f"{each}: {types[each]}" + (f" = {default}" if default else "") for each, default in row]
    arguments = [_REQUESTS.get(name) or _REQUESTS[operation], "name", row[0][0], "process_set"]
    if "splits" in types:
        arguments.append("splits")
    call = f"{start}({', '.join(arguments)})"
    result = f"keep({call})" if "_async" in name else f"{call}.finish()"
    lines = [f"def {name}(", *(f"    {each}," for each in parameters), f") -> {types['return']}:"]
    return "\n".join([*lines, f"    return {result}", ""])


def _namespace() -> Dict[str, Any]:
    from farandole.common import calls, handles, process_sets

    names = [text.partition("(")[0].partition("[")[0] for text in _REQUESTS.values()]
    return {
        **signatures.constants(),
        **{name: getattr(calls, name) for name in names},
        **{name: getattr(typing, name) for name in ("Any", "List", "Optional", "Sequence", "Tuple", "Union")},
        "ProcessSet": process_sets.ProcessSet,
        "keep": handles.keep,
    }


def _documented(function: Function) -> Function:
    described = operations.TABLE.get(function.__name__)
    if described is not None:
        function.__doc__ = described.documentation([each for each in function.__annotations__ if each != "return"])
    return function
