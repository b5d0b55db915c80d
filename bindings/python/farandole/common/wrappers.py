"""Makes the public functions of an adapter from the rows of its package in the table of signatures.

An adapter writes the body of a function, with the bare names of its parameters; ``public_in`` adds what the table says
of them: their defaults and types, and the documentation. The function stays the one that was written, so a call costs
nothing more, and tracebacks, debuggers, AutoGraph and Dynamo see its source.

Where tensors are only checked, packed and submitted, a ``Wrapper`` writes the body as well: it makes the function
from a short source text, as ``dataclasses`` and ``namedtuple`` do. ``inspect.getsource``, debuggers and the module
``traceback`` show that text. It holds once, for all frameworks, the code that single, grouped, waiting, asynchronous
and in-place operations have in common.
"""

from __future__ import annotations

import linecache
import sys
import typing
from types import FunctionType, ModuleType
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from farandole.common import arguments, operations, signatures
from farandole.common.parameter_types import types_of

Function = Callable[..., Any]

_REDUCED = "average, op, prescale_factor, postscale_factor"
_SCATTERED = "op, prescale_factor, postscale_factor"
_REQUESTS: Dict[str, str] = {
    "allreduce": f"reduction({_REDUCED}, {{waits}})",
    "grouped_allreduce": f"grouped_reduction({_REDUCED}, {{waits}})",
    "allgather": "allgathers[{waits}]",
    "grouped_allgather": "GROUPED_ALLGATHER",
    "broadcast": "broadcasts[root_rank, {waits}]",
    "alltoall": "alltoalls[{waits}]",
    "reducescatter": f"scatters[{_SCATTERED}, {{waits}}]",
    "grouped_reducescatter": f"grouped_scatters[{_SCATTERED}, False]",
}
"""The request of each operation, in names of ``calls``; ``waits`` is whether the caller waits at once."""


def public_in(package: str, **defaults: Any) -> Callable[[Function], Function]:
    """Makes a decorator that gives a function of the package its signature and its documentation from the tables.

    The function names its parameters as its row does. ``defaults`` resolve the names in rows that belong to the
    package, such as ``Compression``.
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


class Wrapper:
    """Makes functions that submit tensors.

    :param module: the module that they belong to
    :param requests: the request of each operation, in names of the module or of ``calls``
    :param is_call: whether the function that starts an operation returns a call; otherwise it returns the result
    :param helpers: functions by the names that the text has for them: ``listed(operation, name, tensors)``,
        ``pack(operation, name, compression, tensor)``, ``pack_group``, ``is_tracing()``, ``records_gradients(tensors)``
    """

    def __init__(
        self, package: str, module: str, requests: Mapping[str, str] = _REQUESTS, is_call: bool = True, **helpers: Any
    ) -> None:
        self._package = package
        self._module = module
        self._requests = requests
        self._is_call = is_call
        self._helpers = {"listed": arguments.listed, **helpers}

    def __call__(
        self, name: str, start: Function, traced: Optional[ModuleType] = None, recorded: Optional[type] = None
    ) -> Function:
        """Makes the function of this name. ``start``, given a request, the operation's name, the tensor or tensors and
        the process set, and then the splits or the priority of a function that has such a parameter, returns a call.
        The function waits for the call, or, where its own name says that it is asynchronous, keeps it and returns its
        handle.

        Where the framework makes graphs, the function of the same name in the module ``traced`` stands in graphs for
        the operation, and where it differentiates, ``recorded`` records the operation for that. Both receive the
        arguments of the function itself, except for the compressor.
        """
        row = signatures.row(self._package, name)
        types = types_of(self._package, name)
        parameters = [f"    {each}: {types[each]}{default and f' = {default}'}," for each, default in row]
        body = _body_of(self._package, name, start, self._requests, self._is_call, traced, recorded)
        lines = [f"def {name}(", *parameters, f") -> {types['return']}:", *(f"    {line}" for line in body)]
        helpers = {**self._helpers, start.__name__: start}
        return _documented(defined(self._module, name, "\n".join([*lines, ""]), helpers))

    def both(
        self, name: str, start: Function, traced: Optional[ModuleType] = None, recorded: Optional[type] = None
    ) -> Tuple[Function, Function]:
        """The function that waits, and the asynchronous one beside it."""
        place = "_" if name.endswith("_") else ""
        return self(name, start, traced, recorded), self(f"{name.rstrip('_')}_async{place}", start)


def run_of(package: str, name: str, start: Function, requests: Mapping[str, str] = _REQUESTS, given: str = "") -> str:
    """The source text that starts an operation; ``given`` replaces the function's own tensor."""
    operation = operation_of(name)
    taken = [each for each, _ in signatures.row(package, name)]
    request = requests[operation].format(waits="_async" not in name)
    extras = [each for each in ("splits", "priority") if each in taken]
    return f"{start.__name__}({', '.join([request, 'name', given or taken[0], 'process_set', *extras])})"


def operation_of(name: str) -> str:
    """The operation of a function, without the parts of its name for asynchronous and in-place variants."""
    return name.replace("_async", "").rstrip("_")


def defined(module: str, name: str, text: str, helpers: Mapping[str, Any]) -> Any:
    """Defines the function or class of a source text in its module, and returns it. The other names that the text
    uses are added to the module, so that tools that inspect the function find them where it was defined."""
    place = f"<{module}.{name}>"
    # Never out of date: linecache asks for no file where there is no time of change.
    linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
    namespace = vars(sys.modules[module]) if module in sys.modules else {"__name__": module}
    for each, value in helpers.items():
        assert namespace.setdefault(each, value) is value, f"{module} knows something else as {each}"
    for each, value in _names().items():
        namespace.setdefault(each, value)
    exec(compile(text, place, "exec", flags=annotations.compiler_flag), namespace)
    return namespace[name]


def _body_of(
    package: str,
    name: str,
    start: Function,
    requests: Mapping[str, str],
    is_call: bool,
    traced: Optional[ModuleType],
    recorded: Optional[type],
) -> List[str]:
    if "_async" in name:
        return [f"return keep({run_of(package, name, start, requests)})"]
    tensor, *options = [each for each, _ in signatures.row(package, name)]
    is_group = tensor == "tensors"
    lines, result = [], "{}"
    if types_of(package, name)["return"].startswith("Tuple["):
        result = "tuple({})"
    if is_group and not name.endswith("_"):
        nothing = "()" if result.startswith("tuple") else "[]"
        lines = [f'tensors = listed("{name}", name, tensors)', "if not tensors:", f"    return {nothing}"]
    if "compression" in options:
        options.remove("compression")
        if is_group:
            lines.append(f'packed, contexts = pack_group("{name}", name, compression, tensors)')
            result = "[compression.decompress(each, context) for each, context in zip({}, contexts)]"
        else:
            lines.append(f'packed, context = pack("{name}", name, compression, tensor)')
            result = "compression.decompress({}, context)"
        tensor = "packed"
    ways = []
    if traced is not None:
        graph = traced.__name__.rpartition(".")[2]
        ways += ["if is_tracing():", f"{graph}.{name}({', '.join([tensor, *options])})"]
    if recorded is not None:
        given = ", ".join([*options, f"*{tensor}"] if is_group else [tensor, *options])
        ways += [
            f"if records_gradients({tensor if is_group else f'({tensor},)'}):",
            f"{recorded.__name__}.apply({given})",
        ]
    for condition, way in zip(ways[::2], ways[1::2]):
        lines += [condition, f"    return {result.format(way)}"]
    run = run_of(package, name, start, requests, given=tensor) + (".finish()" if is_call else "")
    return [*lines, f"return {result.format(run)}"]


def _names() -> Dict[str, Any]:
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
