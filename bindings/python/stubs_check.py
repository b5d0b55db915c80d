"""Compares the committed type stubs with what the code offers today; with --write, makes them anew.

The public functions are compared with the operation table first, names and defaults: an adapter must not drift.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any, Callable, Collection, Dict, List

PACKAGES = Path(__file__).resolve().parent
# Python looks beside the script first, where the packages are without their native module.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != PACKAGES]
HEADER = "# Made by bindings/python/stubs_check.py --write from the code; not edited by hand.\n"
TYPING_NAMES = ("Any", "Callable", "Dict", "Iterable", "List", "Optional", "Sequence", "Tuple", "Union")


def written_default(value: Any, names: Dict[int, str]) -> str:
    """A default as the table writes it."""
    return names.get(id(value), repr(value))


def parameters_of(function: Callable[..., Any], names: Dict[int, str]) -> List[tuple[str, str]]:
    """Name and default of each parameter."""
    return [
        (each.name, "" if each.default is inspect.Parameter.empty else written_default(each.default, names))
        for each in inspect.signature(function).parameters.values()
    ]


def differences_from_table(module: Any, lacking: Collection[str] = ()) -> List[str]:
    """What the adapter spells otherwise than the table, apart from the functions and parameters that it has not."""
    from farandole.common import operations

    names = {id(module.global_process_set): "global_process_set"}
    compression = getattr(module, "Compression", None)
    if compression is not None:
        names[id(compression.none)] = "Compression.none"
    found = []
    for name, row in operations.TABLE.items():
        if name in lacking:
            continue
        actual = parameters_of(getattr(module, name), names)
        # Reduce ops are plain numbers, so the table's word for them is looked up.
        wanted = [
            (each, repr(module.Average) if default == "Average" else default)
            for each, default in row.parameters
            if each not in lacking
        ]
        if actual != wanted:
            found.append(f"{module.__name__}.{name}{actual} is {wanted} in the operation table")
    return found


def function_stub(name: str, function: Callable[..., Any]) -> str:
    """One function as a stub, with its documentation."""
    pieces = []
    signature = inspect.signature(function)
    for each in signature.parameters.values():
        prefix = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        text = f"{prefix}{each.name}: {each.annotation}"
        pieces.append(text if each.default is each.empty else f"{text} = ...")
    documentation = inspect.getdoc(function) or ""
    body = "\n".join(f"    {line}" if line else "" for line in f'"""{documentation}\n"""'.splitlines())
    return f"def {name}({', '.join(pieces)}) -> {signature.return_annotation}:\n{body}\n"


def framework_stub(module: Any) -> str:
    """The public names of a framework's door."""
    imports, constants, functions = [], [], []
    for name, value in sorted(vars(module).items()):
        if name.startswith("_") or name == "annotations":
            continue
        if isinstance(value, int):
            constants.append(f"{name}: int\n")
        elif inspect.isclass(value):
            imports.append(f"from {value.__module__} import {name} as {name}\n")
        elif inspect.ismethod(value) or inspect.isfunction(value):
            plain = value if inspect.ismethod(value) else inspect.unwrap(value)
            functions.append(function_stub(name, plain))
    submodule = f"from {module.__name__} import elastic as elastic\n"
    sets = "from farandole.common.process_sets import global_process_set as global_process_set\n"
    head = f"from typing import {', '.join(TYPING_NAMES)}\n\nimport torch\n\n"
    alias = "Parameters = Union[Dict[str, Any], Iterable[Tuple[str, Any]], Iterable[torch.Tensor]]\n"
    imports = sorted([*imports, sets, submodule])
    return HEADER + head + "".join(imports) + "\n" + alias + "".join(constants + functions)


def native_stub() -> str:
    """The native module, as nanobind sees it."""
    from farandole import _native
    from nanobind.stubgen import StubGen

    generator = StubGen(_native)
    generator.put(_native)
    return HEADER + str(generator.get())


def tidied(text: str, path: Path) -> str:
    """As the formatter wants it."""
    import subprocess

    command = [Path(sys.executable).with_name("ruff"), "format", "--stdin-filename", str(path), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def made() -> Dict[Path, str]:
    """Every stub by its path."""
    import farandole.torch

    stubs = {
        PACKAGES / "farandole" / "_native.pyi": native_stub(),
        PACKAGES / "farandole" / "torch" / "__init__.pyi": framework_stub(farandole.torch),
    }
    return {path: tidied(text, path) for path, text in stubs.items()}


def main() -> int:
    """0 when all is as it should be."""
    import farandole.numpy
    import farandole.torch

    problems = differences_from_table(farandole.torch)
    problems += differences_from_table(farandole.numpy, lacking=("compression", "sparse_allreduce_async"))
    for path, text in made().items():
        if path.exists() and path.read_text() == text:
            continue
        if "--write" in sys.argv[1:]:
            print(f"writing {path.relative_to(PACKAGES)}")
            path.write_text(text)
        else:
            problems.append(f"{path.relative_to(PACKAGES)} is not what the code makes today; --write makes it anew")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
