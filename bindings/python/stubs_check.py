"""Compares the committed type stubs with what the code offers today; with --write, makes them anew.

Takes the names of packages below ``farandole`` whose frameworks this environment has ("tensorflow tensorflow.keras");
without one: torch, numpy, and the native module. The public functions are compared with the table of signatures
first: an adapter must not drift.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any, Callable, Dict, Sequence

PACKAGES = Path(__file__).resolve().parent
# Python looks beside the script first, where the packages are without their native module.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != PACKAGES]
HEADER = "# Made by bindings/python/stubs_check.py --write from the code; not edited by hand.\n"
TYPING_NAMES = ("Any", "Callable", "Dict", "Iterable", "Iterator", "List", "Optional", "Sequence", "Tuple", "Union")
IMPORTS = {"torch": "import torch", "tf": "import tensorflow as tf", "mx": "import mxnet as mx", "jax": "import jax"}
"""How the code of adapters calls their frameworks in annotations."""
DEFAULT = ("torch", "numpy")


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
    from farandole.common import signatures

    imports, constants, functions = [], [], []
    package = module.__name__.partition(".")[2]
    # Those of the table may come when they are first asked for.
    for name in sorted({*vars(module), *signatures.PACKAGES[package]}):
        if name.startswith("_") or name == "annotations":
            continue
        value = getattr(module, name)
        if isinstance(value, int):
            constants.append(f"{name}: int\n")
        elif inspect.isclass(value):
            imports.append(f"from {value.__module__} import {name} as {name}\n")
        elif inspect.ismodule(value):
            if f"{package}.{name}" in signatures.PACKAGES:
                imports.append(f"from {module.__name__} import {name} as {name}\n")
        elif inspect.ismethod(value) or inspect.isfunction(value):
            plain = value if inspect.ismethod(value) else inspect.unwrap(value)
            functions.append(function_stub(name, plain))
    imports.append("from farandole.common.process_sets import global_process_set as global_process_set\n")
    body = "".join(constants + functions)
    if "Parameters" in body:
        body = "Parameters = Union[Dict[str, Any], Iterable[Tuple[str, Any]], Iterable[torch.Tensor]]\n" + body
    code = re.sub(r'""".*?"""', "", body, flags=re.DOTALL)
    typing = [name for name in TYPING_NAMES if re.search(rf"\b{name}\b", code)]
    head = f"from typing import {', '.join(typing)}\n\n" if typing else ""
    head += "".join(f"{line}\n" for short, line in IMPORTS.items() if re.search(rf"\b{short}\.", code)) + "\n"
    return HEADER + head + "".join(sorted(imports)) + "\n" + body


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

    # The frameworks' own environments have no formatter.
    beside = Path(sys.executable).with_name("ruff")
    ruff = beside if beside.exists() else PACKAGES.parent.parent / ".venv" / "bin" / "ruff"
    command = [ruff, "format", "--stdin-filename", str(path), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def made(packages: Sequence[str] = DEFAULT) -> Dict[Path, str]:
    """Every stub by its path."""
    stubs = {}
    for package in packages:
        module = importlib.import_module(f"farandole.{package}")
        stubs[PACKAGES.joinpath("farandole", *package.split("."), "__init__.pyi")] = framework_stub(module)
    if tuple(packages) == DEFAULT:
        stubs[PACKAGES / "farandole" / "_native.pyi"] = native_stub()
    return {path: tidied(text, path) for path, text in stubs.items()}


def main() -> int:
    """0 when all is as it should be."""
    from farandole.common import signatures

    packages = [each for each in sys.argv[1:] if not each.startswith("-")] or DEFAULT
    problems = []
    for package in signatures.PACKAGES:
        if any(package == each or package.startswith(f"{each}.") for each in packages):
            problems += signatures.differences(package)
    for path, text in made(packages).items():
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
