"""Compares the committed type stubs with the stubs generated from the code; with --write, replaces them.

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
from typing import Any, Callable, Dict, List, Sequence

PACKAGES = Path(__file__).resolve().parent
# Python looks beside the script first, where the packages are without their native module.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != PACKAGES]
HEADER = "# Made by bindings/python/stubs_check.py --write from the code; not edited by hand.\n"
TYPING_NAMES = ("Any", "Callable", "Dict", "Iterable", "Iterator", "List", "Optional", "Sequence", "Tuple", "Union")
IMPORTS = {"torch": "import torch", "tf": "import tensorflow as tf", "mx": "import mxnet as mx", "jax": "import jax"}
"""The names that adapters use for their frameworks in annotations."""
TYPES = {"WrappedOptimizer": "from farandole.torch.optimizer import WrappedOptimizer\n"}
"""Classes that stand in annotations and are for type checkers alone."""
DEFAULT = ("torch", "numpy")
MADE_FOR_KERAS = ("callbacks", "elastic")
"""Modules whose classes are made when the Keras in use is known; their source tells a type checker nothing."""
ALIASES = {
    **{
        name: name
        for name in (
            *("common.basics", "common.elastic", "common.exceptions", "common.process_sets", "common.util"),
            *("data", "data.data_loader_base", "jax", "jax.elastic", "lightning", "lightning.elastic", "numpy"),
            *("keras", "keras.callbacks", "keras.elastic", "mxnet", "mxnet.compression", "mxnet.functions"),
            *("numpy.elastic", "runner", "runner.elastic", "runner.elastic.worker", "runner.launch"),
            *("runner.common", "runner.common.util", "runner.elastic.constants", "runner.elastic.discovery"),
            *("runner.elastic.settings", "runner.gloo_run", "runner.util", "runner.util.network"),
            *("runner.common.service", "runner.common.service.compute_service", "runner.util.threads"),
            *("runner.common.service.driver_service", "runner.driver", "runner.driver.driver_service"),
            *("runner.elastic.driver", "runner.elastic.rendezvous", "runner.http", "runner.http.http_client"),
            *("runner.http.http_server", "runner.js_run", "runner.mpi_run", "runner.util.lsf"),
            *(f"runner.common.util.{name}" for name in ("codec", "config_parser", "env", "host_hash", "hosts")),
            *(f"runner.common.util.{name}" for name in ("network", "safe_shell_exec", "secret", "settings", "timeout")),
            "runner.common.util.tiny_shell_exec",
            *("tensorflow", "tensorflow.compression", "tensorflow.elastic", "tensorflow.functions"),
            *("tensorflow.gradient_aggregation", "tensorflow.gradient_aggregation_eager", "tensorflow.keras"),
            *("tensorflow.keras.callbacks", "tensorflow.keras.elastic", "tensorflow.sync_batch_norm"),
            *("tensorflow.util", "torch", "torch.compression", "torch.elastic", "torch.elastic.sampler"),
            *("tensorflow.data", "tensorflow.data.compute_service", "tensorflow.data.compute_worker", "ray"),
            *(f"ray.{name}" for name in ("adapter", "elastic", "elastic_v2", "ray_logger", "runner", "strategy")),
            *("ray.utils", "ray.worker", "spark", "spark.common", "spark.conf", "spark.data_loaders", "spark.runner"),
            *(f"spark.common.{name}" for name in ("backend", "datamodule", "estimator", "params", "store", "util")),
            *(f"spark.{name}" for name in ("data_loaders.pytorch_data_loaders", "task", "task.task_info")),
            *(
                f"spark.{name}.{module}"
                for name in ("keras", "lightning", "torch")
                for module in ("datamodule", "estimator")
            ),
            *("spark.keras", "spark.lightning", "spark.torch", "spark.tensorflow", "spark.tensorflow.compute_worker"),
            *("torch.elastic.state", "torch.functions", "torch.optimizer", "torch.sync_batch_norm"),
        )
    },
    # These re-export names of other modules; type checkers find their types in the package's own stub.
    **{f"{name}.mpi_ops": name for name in ("mxnet", "tensorflow", "torch")},
}
"""The modules that the Horovod interface has, and ours beside them; each with the module of ``farandole`` whose names
it has."""


def header_of(name: str, function: Callable[..., Any]) -> str:
    """The first line of a function as a stub."""
    pieces = []
    signature = inspect.signature(function)
    for each in signature.parameters.values():
        prefix = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        text = f"{prefix}{each.name}"
        if each.annotation is not each.empty:
            text += f": {each.annotation}"
        pieces.append(text if each.default is each.empty else f"{text} = ...")
    return f"def {name}({', '.join(pieces)}) -> {signature.return_annotation}:"


def documentation_of(value: Any) -> str:
    """The documentation of a function or a class as an indented block."""
    block = f'"""{inspect.getdoc(value) or ""}\n"""'
    return "\n".join(f"    {line}" if line else "" for line in block.splitlines())


def function_stub(name: str, function: Callable[..., Any]) -> str:
    """One function as a stub, with its documentation."""
    return f"{header_of(name, function)}\n{documentation_of(function)}\n"


def without_documentation(stub: str) -> str:
    return re.sub(r'""".*?"""', "", stub, flags=re.DOTALL)


def typing_imports(code: str) -> str:
    """The import of what code takes from ``typing``."""
    names = [name for name in TYPING_NAMES if re.search(rf"\b{name}\b", code)]
    return f"from typing import {', '.join(names)}\n\n" if names else ""


def framework_stub(module: Any) -> str:
    """The public names of a framework's binding."""
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
    code = without_documentation(body)
    head = typing_imports(code)
    head += "".join(f"{line}\n" for short, line in IMPORTS.items() if re.search(rf"\b{short}\.", code)) + "\n"
    imports += [line for name, line in TYPES.items() if re.search(rf"\b{name}\b", code)]
    return HEADER + head + "".join(sorted(imports)) + "\n" + body


def class_stub(name: str, value: type) -> str:
    """The constructor and the documentation of a class whose base depends on the environment."""
    constructor = header_of("__init__", value.__init__)  # type: ignore[misc]
    return f"class {name}(Any):\n{documentation_of(value)}\n    {constructor} ...\n"


def keras_stub(module: Any) -> str:
    """A module whose classes are made for the Keras in use: those of the table of signatures."""
    from farandole.common import signatures

    imports: List[str] = []
    classes: List[str] = []
    for name in sorted(signatures.PACKAGES[module.__name__.partition(".")[2]]):
        value = getattr(module, name)
        if name == "run":
            imports.append("from farandole.common.elastic import run as run\n")
        elif value.__module__.startswith("farandole._keras.") and "<locals>" not in value.__qualname__:
            imports.append(f"from {value.__module__} import {name} as {name}\n")
        else:
            classes.append(class_stub(name, value))
    body = "\n".join(classes)
    return HEADER + typing_imports(without_documentation(body)) + "".join(imports) + "\n" + body


def horovod_stubs() -> Dict[Path, str]:
    """The stubs of the package ``horovod``: each module has the names of the module that it is an alias of.

    Each is a folder: pyright misses the source of a stub that is a file, and tells the user.
    """
    stubs = {PACKAGES / "horovod" / "common" / "__init__.pyi": HEADER}
    for name, source in ALIASES.items():
        stubs[PACKAGES.joinpath("horovod", *name.split("."), "__init__.pyi")] = (
            f"{HEADER}from farandole.{source} import *\n"
        )
    return stubs


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
        if package.endswith("keras"):
            for part in MADE_FOR_KERAS:
                path = PACKAGES.joinpath("farandole", *package.split("."), f"{part}.pyi")
                stubs[path] = keras_stub(importlib.import_module(f"farandole.{package}.{part}"))
    if tuple(packages) == DEFAULT:
        stubs.update(horovod_stubs())
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
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        else:
            problems.append(f"{path.relative_to(PACKAGES)} is not what the code makes today; --write makes it anew")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
