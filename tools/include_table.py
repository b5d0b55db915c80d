#!/usr/bin/env python3
"""Who may include whom: the table, and the check that the tree keeps to it.

A folder may include itself and the folders in its row. A foreign header may be included only in the folders of its
row; a header that is neither the project's, nor C++'s, nor the system's, nor in the table is refused, so that a new
library is a decision and not an accident. Prints every line that breaks a rule; exits 1 if there is one.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

BELOW_ACTORS = ["messages", "collectives", "elastic", "cuda"]

# folder -> what it may include besides itself; a file's path stands for that file alone
FOLDERS = {
    "messages": [],
    "collectives": ["messages"],
    "elastic": ["messages"],
    "cuda": ["messages", "collectives/transport/path.hpp", "collectives/operation.hpp"],
    "actors": BELOW_ACTORS,
    "bindings": ["actors", *BELOW_ACTORS],
    "tools": ["bindings", "actors", *BELOW_ACTORS],
    "docs": ["bindings"],
    "tests": ["tools", "bindings", "actors", *BELOW_ACTORS],
}

# The C++ interface belongs to bindings, but the runtime behind it is built by the actors.
ALSO = {
    "actors": ["bindings/include/farandole/farandole.hpp"],
}

# beginning of a foreign header's name -> the folders that may include it
FOREIGN = {
    "caf/": ["actors", "tests"],
    "capnp/": ["messages"],
    "kj/": ["messages"],
    "yaml-cpp/": ["tools/farandole"],
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
    "nccl.h": ["cuda"],
    "nanobind/": ["bindings/native"],
    # Compiled on the user's machine, against the TensorFlow that is installed there.
    "tensorflow/": ["bindings/python/farandole/xla"],
    "xla/": ["bindings/python/farandole/xla"],
    "Python.h": ["bindings/native"],
    "CLI/": ["tools/farandole"],
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


def project_allowed(source: Path, header: str) -> bool:
    folder = source.parts[0]
    allowed = [folder, *FOLDERS[folder], *ALSO.get(folder, [])]
    if source.name.endswith(TEST_NAMES):
        # A unit test sits beside its code and may borrow the simulated world and the entry point.
        allowed.append("tests")
    return any(header == entry or header.startswith(entry + "/") for entry in allowed)


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
        elif header.split("/")[0] not in FOLDERS:
            reason = "include paths start at the repository's root, and foreign headers stand in <>"
        elif not project_allowed(source, header):
            reason = f"{source.parts[0]} may not include {header.split('/')[0]}"
        else:
            reason = ""
        if reason:
            found.append(f"{source}:{number}: {line.strip()}: {reason}")
    return found


def main() -> int:
    found = []
    for source in sources():
        if source.parts[0] not in FOLDERS:
            found.append(f"{source}: C++ in a folder that the include table does not know")
            continue
        found += problems_of(source)
    print("\n".join(found) or "include table: kept")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
