#!/usr/bin/env python3
"""Checks that every folder includes only the folders that the table allows, and that Python imports have no cycle.

A folder may include itself and the folders in its row. A foreign header may be included only in the folders of its
row; a header that is neither the project's, nor C++'s, nor the system's, nor in the table is refused, so that a new
library is a decision and not an accident. Each header of the product is included by a file of the product besides the
one that implements it: code that only tests use is not in the tree. No module of the Python packages may import itself
through others, also not inside of functions. Prints every line that breaks a rule; exits 1 if there is one.
"""

import ast
import graphlib
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# folder -> the folders whose headers it may include besides its own. Rows stand in the order of the layers: a folder
# includes only folders above it, so no two folders include each other. A row covers the files directly in its folder.
FOLDERS: dict[str, list[str]] = {
    "messages/values": [],
    "messages/record": ["messages/values"],
    "messages/settings": ["messages/values"],
    "messages/wire": ["messages/values"],
    "messages/settings/rows": ["messages/settings", "messages/values"],
    "collectives/transport/connections": ["messages/values"],
    "collectives": ["messages/values"],
    "collectives/fusion": ["collectives", "messages/record", "messages/values", "messages/wire"],
    "collectives/math": ["messages/values"],
    "collectives/relay": ["messages/values", "messages/wire"],
    "collectives/negotiation": [
        "collectives",
        "collectives/fusion",
        "collectives/math",
        "collectives/relay",
        "messages/values",
        "messages/wire",
    ],
    "collectives/transport/wait": [],
    "collectives/transport": [
        "collectives",
        "collectives/math",
        "collectives/transport/wait",
        "messages/values",
        "messages/wire",
    ],
    "collectives/transport/shm": [
        "collectives",
        "collectives/math",
        "collectives/transport",
        "collectives/transport/connections",
        "collectives/transport/wait",
        "messages/record",
        "messages/values",
    ],
    "collectives/transport/plugin": [
        "collectives",
        "collectives/math",
        "collectives/transport",
        "messages/values",
        "messages/wire",
    ],
    "collectives/transport/ccl": [
        "collectives/math",
        "collectives/transport",
        "collectives/transport/plugin",
        "messages/values",
    ],
    "collectives/transport/p2p": ["collectives/math", "collectives/transport", "messages/values"],
    "collectives/transport/gloo": ["collectives/transport", "collectives/transport/p2p", "messages/values"],
    "collectives/transport/tcp": [
        "collectives/transport",
        "collectives/transport/connections",
        "collectives/transport/p2p",
        "collectives/transport/wait",
        "messages/values",
    ],
    "collectives/transport/hierarchical": [
        "collectives/math",
        "collectives/transport",
        "collectives/transport/p2p",
        "collectives/transport/shm",
        "collectives/transport/tcp",
    ],
    "collectives/transport/mpi": [
        "collectives/transport",
        "collectives/transport/p2p",
        "collectives/transport/wait",
        "messages/values",
    ],
    "collectives/transport/ucx": [
        "collectives/transport",
        "collectives/transport/connections",
        "collectives/transport/p2p",
        "messages/values",
    ],
    "collectives/transport/registry": [
        "collectives",
        "collectives/transport",
        "collectives/transport/ccl",
        "collectives/transport/gloo",
        "collectives/transport/hierarchical",
        "collectives/transport/mpi",
        "collectives/transport/plugin",
        "collectives/transport/shm",
        "collectives/transport/tcp",
        "collectives/transport/ucx",
        "messages/settings",
        "messages/values",
    ],
    "elastic": ["messages/record", "messages/settings", "messages/values", "messages/wire"],
    "cuda/driver": ["messages/values"],
    "cuda/kernels": ["cuda/driver", "messages/values"],
    "cuda/staged": ["cuda/driver", "messages/values"],
    "cuda/nccl": ["cuda/driver", "cuda/kernels", "messages/values"],
    "cuda/fake": [],
    "actors/event_loop": [
        "collectives/transport/connections",
        "elastic",
        "messages/settings",
        "messages/values",
        "messages/wire",
    ],
    "actors/submission": [
        "collectives",
        "collectives/fusion",
        "collectives/math",
        "collectives/negotiation",
        "collectives/transport/shm",
        "cuda/driver",
        "messages/record",
        "messages/values",
        "messages/wire",
    ],
    "actors/interfaces": [
        "actors/event_loop",
        "actors/submission",
        "collectives/negotiation",
        "collectives/relay",
        "elastic",
        "messages/values",
        "messages/wire",
    ],
    "actors/rendezvous": [
        "actors/event_loop",
        "actors/interfaces",
        "collectives/transport/connections",
        "elastic",
        "messages/settings",
        "messages/values",
        "messages/wire",
    ],
    "actors/pmi": [
        "actors/event_loop",
        "actors/rendezvous",
        "elastic",
        "messages/settings",
        "messages/values",
        "messages/wire",
    ],
    "actors/launch": [
        "actors/event_loop",
        "actors/interfaces",
        "actors/rendezvous",
        "elastic",
        "messages/record",
        "messages/settings",
        "messages/values",
        "messages/wire",
    ],
    "actors/gpu": [
        "actors/submission",
        "collectives",
        "collectives/math",
        "collectives/transport",
        "cuda/driver",
        "cuda/nccl",
        "cuda/staged",
        "messages/values",
        "messages/wire",
    ],
    "actors/process_set": [
        "actors/event_loop",
        "actors/gpu",
        "actors/interfaces",
        "actors/submission",
        "collectives",
        "collectives/fusion",
        "collectives/negotiation",
        "collectives/relay",
        "collectives/transport",
        "collectives/transport/registry",
        "collectives/transport/shm",
        "cuda/nccl",
        "cuda/staged",
        "elastic",
        "messages/record",
        "messages/settings",
        "messages/values",
        "messages/wire",
    ],
    "actors/timeline": ["actors/event_loop", "collectives", "messages/record", "messages/values"],
    "actors/member": [
        "actors/event_loop",
        "actors/interfaces",
        "actors/pmi",
        "actors/process_set",
        "actors/rendezvous",
        "actors/submission",
        "actors/timeline",
        "collectives/negotiation",
        "collectives/transport/connections",
        "collectives/transport/mpi",
        "collectives/transport/registry",
        "collectives/transport/wait",
        "elastic",
        "messages/record",
        "messages/settings",
        "messages/values",
        "messages/wire",
    ],
    "bindings/kernels": ["messages/values"],
    "bindings/kernels/jax": ["bindings/kernels"],
    "bindings/kernels/mxnet": ["bindings/kernels"],
    "bindings/kernels/tensorflow": ["bindings/kernels"],
    "bindings/python/farandole/xla": [],
    "bindings/cxx": [
        "actors/member",
        "actors/process_set",
        "actors/rendezvous",
        "actors/submission",
        "collectives/transport/mpi",
        "elastic",
        "messages/record",
        "messages/settings",
        "messages/values",
        "messages/wire",
    ],
    "bindings/include/farandole": [],
    "bindings/c": ["bindings/cxx", "collectives", "messages/values"],
    "bindings/native": [
        "actors/gpu",
        "actors/pmi",
        "actors/rendezvous",
        "actors/submission",
        "bindings/c",
        "bindings/cxx",
        "collectives",
        "collectives/transport/shm",
        "elastic",
        "messages/values",
    ],
    "tools/farandole/cli": ["actors/launch", "messages/values"],
    "tools/farandole/chaos": ["actors/launch", "actors/rendezvous", "messages/values", "tools/farandole/cli"],
    "tools/farandole/explain": ["collectives", "collectives/negotiation", "messages/record", "messages/values"],
    "tools/farandole/report": ["messages/record", "messages/values", "tools/farandole/explain"],
    "tools/farandole/placers": ["actors/launch", "messages/values", "tools/farandole/cli"],
    "tools/farandole/reference": ["messages/settings", "tools/farandole/cli"],
    "tools/farandole/trace": ["collectives", "messages/record", "messages/values", "tools/farandole/explain"],
    "tools/farandole": [
        "actors/launch",
        "actors/member",
        "actors/rendezvous",
        "actors/submission",
        "collectives",
        "collectives/transport",
        "collectives/transport/ccl",
        "collectives/transport/connections",
        "collectives/transport/mpi",
        "collectives/transport/registry",
        "collectives/transport/wait",
        "cuda/driver",
        "cuda/nccl",
        "elastic",
        "messages/record",
        "messages/settings",
        "messages/values",
        "messages/wire",
        "tools/farandole/chaos",
        "tools/farandole/cli",
        "tools/farandole/explain",
        "tools/farandole/placers",
        "tools/farandole/reference",
        "tools/farandole/report",
        "tools/farandole/trace",
    ],
}

# Unit tests, examples and tests/ are at the top: they may include the layers of their own tree and all below it.
LAYERS = ["messages", "collectives", "elastic", "cuda", "actors", "bindings", "tools", "docs", "tests"]

# beginning of a foreign header's name -> the folders that may include it
FOREIGN = {
    "caf/": ["actors", "tests"],
    "capnp/": ["messages"],
    "kj/": ["messages"],
    "yaml-cpp/": ["tools/farandole"],
    # Traces of torch.profiler: decision page 0040.
    "nlohmann/": ["tools/farandole/trace", "tests"],
    "zlib.h": ["messages/record", "tools/farandole/trace"],
    "openssl/": ["actors", "collectives/transport", "elastic", "tests"],
    "spdlog/": ["actors"],
    "fmt/": ["actors"],
    "ucp/": ["collectives/transport"],
    "uct/": ["collectives/transport"],
    "ucs/": ["collectives/transport"],
    "intel-ipsec-mb.h": ["collectives/transport/tcp"],
    "gloo/": ["collectives/transport"],
    "mpi.h": ["collectives/transport"],
    "oneapi/": ["collectives/transport"],
    "cuda_runtime": ["cuda"],
    "cuda.h": ["cuda"],
    "cudaTypedefs.h": ["cuda"],
    "nccl.h": ["cuda"],
    "nvtx3/": ["actors/submission"],
    "nanobind/": ["bindings/native"],
    # Compiled on the user's machine, against the TensorFlow that is installed there.
    "tensorflow/": ["bindings/python/farandole/xla"],
    "xla/": ["bindings/python/farandole/xla"],
    "Python.h": ["bindings/native"],
    "CLI/": ["tools/farandole"],
    "farandole/": ["bindings", "collectives/transport", "tools", "docs", "tests"],  # the public headers
    "catch2/": [],  # only *_test.cpp, *_testing.hpp and tests/: see `foreign_allowed`
}

# A unit test, and what several of them share.
TEST_NAMES = ("_test.cpp", "_testing.hpp")

SYSTEM = re.compile(r"(sys|linux|netinet|arpa|net|asm)/[\w/.-]+\.h|[a-z0-9_]+\.h|immintrin\.h|arm_neon\.h")
STANDARD = re.compile(r"[a-z0-9_]+")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
IF_LIBRARY = re.compile(r"^\s*#\s*(if|ifdef|elif)\b.*\b(HAVE|WITH|ENABLE|FARANDOLE_HAS)_", re.I)


def sources() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", "*.hpp", "*.cpp", "*.h", "*.c", "*.cu"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    return [Path(name) for name in sorted(set(listed)) if (ROOT / name).exists()]


def is_test(source: Path) -> bool:
    return source.parts[0] in ("tests", "docs") or "_testing." in source.name or source.name.endswith("_test.cpp")


def project_allowed(source: Path, header: str) -> bool:
    folder, included = str(source.parent), str(Path(header).parent)
    if is_test(source):
        # A unit test sits beside its code and may borrow the deadline, the simulated world and the entry point.
        return Path(header).parts[0] == "tests" or LAYERS.index(source.parts[0]) >= LAYERS.index(Path(header).parts[0])
    return included in (folder, *FOLDERS[folder])


def table_problems() -> list[str]:
    """Rows that name a folder of a layer that is not above theirs."""
    order = list(FOLDERS)
    return [
        f"tools/include_table.py: {folder} may not include {included}, whose row is not above its own"
        for folder, row in FOLDERS.items()
        for included in row
        if included not in order or order.index(included) >= order.index(folder)
    ]


def foreign_allowed(source: Path, header: str) -> str:
    """Empty when allowed, else why not."""
    if header.startswith("catch2/"):
        is_test = source.name.endswith(TEST_NAMES) or source.parts[0] == "tests"
        return "" if is_test else "Catch2 is for tests"
    for beginning, folders in FOREIGN.items():
        if header.startswith(beginning):
            inside = any(source.is_relative_to(folder) for folder in folders)
            return "" if inside else f"<{beginning}…> is for {', '.join(folders)} only"
    if STANDARD.fullmatch(header) or SYSTEM.fullmatch(header):
        return ""
    return "a header that the table does not know: give it a row or do without"


def problems_of(source: Path) -> list[str]:
    found = []
    for number, line in enumerate((ROOT / source).read_text().splitlines(), 1):
        if IF_LIBRARY.match(line):
            found.append(f"{source}:{number}: no #if for a library: let CMake choose between two files")
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, header = match.groups()
        if quote == "<":
            reason = foreign_allowed(source, header)
        elif header.split("/")[0] not in LAYERS:
            reason = "include paths start at the repository's root, and foreign headers stand in <>"
        elif not project_allowed(source, header):
            reason = f"{source.parent} may not include {Path(header).parent}"
        else:
            reason = ""
        if reason:
            found.append(f"{source}:{number}: {line.strip()}: {reason}")
    return found


def headers_without_user() -> list[str]:
    """Headers that no product file includes except those that such headers belong to."""
    product = [source for source in sources() if not is_test(source)]
    includes = {
        source: re.findall(r'(?m)^\s*#\s*include\s*"([^"]+)"', (ROOT / source).read_text()) for source in product
    }
    headers = {source for source in product if source.suffix in (".hpp", ".h")}
    # What is installed has its users elsewhere; a source without a header of its own is a program or a module.
    used = {header for header in headers if header.is_relative_to("bindings/include")}
    reached = used | {source for source in product if source.suffix in (".cpp", ".c", ".cu") and not own_header(source)}
    while reached:
        found = {Path(name) for source in reached for name in includes[source]} & headers - used
        used |= found
        reached = found | {source for source in product if own_header(source) in found}
    return [f"{header}: no file of the product includes it" for header in sorted(headers - used)]


def own_header(source: Path) -> Path | None:
    """The header that a source implements: the one of its name."""
    header = source.with_suffix(".hpp")
    return header if source.suffix != ".hpp" and (ROOT / header).exists() else None


def python_modules() -> dict[str, Path]:
    """The modules of the Python packages by name, the compiled one by its stub."""
    packages = ROOT / "bindings" / "python"
    files = [file for name in ("farandole", "horovod") for file in (packages / name).rglob("*.py")]
    files.append(packages / "farandole" / "_native.pyi")
    return {
        ".".join(file.relative_to(packages).with_suffix("").parts).removesuffix(".__init__"): file for file in files
    }


def imported_by(file: Path, modules: dict[str, Path]) -> set[str]:
    """Modules that this one imports anywhere, except for types only."""
    tree = ast.parse(file.read_text())
    for_types = {
        inner
        for outer in ast.walk(tree)
        if isinstance(outer, ast.If) and ast.unparse(outer.test) == "TYPE_CHECKING"
        for inner in ast.walk(outer)
    }
    found = set()
    for node in ast.walk(tree):
        if node in for_types:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in modules else node.module for name in inner}
    return found & set(modules)


def import_cycle() -> list[str]:
    modules = python_modules()
    graph = {name: imported_by(file, modules) for name, file in modules.items()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as cycle:
        return ["bindings/python: modules import each other: " + " -> ".join(reversed(cycle.args[1]))]
    return []


def main() -> int:
    found = table_problems() + import_cycle() + headers_without_user()
    for source in sources():
        if str(source.parent) not in FOLDERS and not is_test(source):
            found.append(f"{source}: the include table has no row for {source.parent}")
            continue
        found += problems_of(source)
    print("\n".join(found) or "include table: kept")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
