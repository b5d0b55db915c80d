#!/usr/bin/env python3
"""Divides C++ files into groups that a compiler can read as one source.

Most of the time that a file takes goes into headers, so a group of eight takes little more than one file. The files
of a group lie in one folder. Files that declare the same name for themselves, such as a function in an unnamed
namespace, get into different groups.

    tools/source_groups.py [--tests]    prints GROUP=FILE for each file of a group, with paths relative to the root;
                                        only those of tests
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ["messages", "collectives", "elastic", "cuda", "actors", "bindings", "tools", "tests", "docs"]
MOST_TOGETHER = 8
INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.M)

# Declarations begin in the first column, because the formatter does not indent the contents of a namespace.
TYPE = re.compile(r"^(?:enum )?(?:class|struct|enum|union)\s+(?:\[\[.*?\]\]\s*)?(\w+)")
ALIAS = re.compile(r"^using\s+(\w+)\s*=")
CONCEPT = re.compile(r"^concept\s+(\w+)")
FUNCTION_OR_VALUE = re.compile(r"^[\w:<>,*&\[\]\s]*?[\s*&>](\w+)\s*(?:\(|=|\{|\[|;)")
# A name of another namespace, such as "using std::chrono::seconds;", may be declared in several files.
NOT_DECLARED = re.compile(
    r"^(?:#|//|/\*|[}{)]|namespace\b|return\b|extern\b|using [\w:]+::\w+;|using namespace\b|TEST_CASE)"
)
TEMPLATE = re.compile(r"^template\s*<.*>\s*(?=\w)")
SPECIFIERS = re.compile(r"^(?:(?:static|inline|constexpr|consteval|thread_local|const|explicit)\s+)+")
# These change what the files behind them mean.
NOT_TOGETHER = re.compile(r"^\s*#\s*define\b|^using (?:enum|namespace (?!farandole;|std::chrono_literals;))", re.M)


@cache
def closure(path: Path) -> frozenset[Path]:
    """The file and the project's headers and schemas that it reaches."""
    reached = {path}
    frontier = [path]
    while frontier:
        for name in INCLUDE.findall(frontier.pop().read_bytes()):
            header = ROOT / name.decode().replace(".capnp.h", ".capnp")
            if header.exists() and header not in reached:
                reached.add(header)
                frontier.append(header)
    return frozenset(reached)


def declared_name(line: str) -> str | None:
    if not line or line[0].isspace() or NOT_DECLARED.match(line):
        return None
    line = TEMPLATE.sub("", line)
    for form in (TYPE, ALIAS, CONCEPT):
        if found := form.match(line):
            return found[1]
    found = FUNCTION_OR_VALUE.match(" " + SPECIFIERS.sub("", line))
    return found[1] if found else None


@cache
def names_in(path: Path) -> tuple[frozenset[str], frozenset[str]]:
    """What the file declares outside of classes and functions, and which of it is in an unnamed namespace or static."""
    everything, private = set(), set()
    unnamed = False
    for line in path.read_text().splitlines():
        if line.startswith("namespace {"):
            unnamed = True
        elif line.startswith("}") and line.rstrip().endswith("// namespace"):
            unnamed = False
        elif name := declared_name(line):
            everything.add(name)
            if unnamed or line.startswith("static "):
                private.add(name)
    return frozenset(everything), frozenset(private)


@cache
def names_of_headers(path: Path) -> frozenset[str]:
    return frozenset().union(*(names_in(header)[0] for header in closure(path) if header.suffix == ".hpp"))


def in_groups(sources: Iterable[Path], most: int = MOST_TOGETHER) -> list[list[Path]]:
    """Groups of at most `most` files; a file that suits no other is a group by itself."""
    groups: list[list[Path]] = []
    joinable: list[list[Path]] = []
    for source in sources:
        alone = NOT_TOGETHER.search(source.read_text())
        fits = (group for group in joinable if len(group) < most and all(agree(source, x) for x in group))
        if group := None if alone else next(fits, None):
            group.append(source)
            continue
        groups.append([source])
        if not alone:
            joinable.append(groups[-1])
    return groups


def agree(one: Path, other: Path) -> bool:
    own, private = names_in(one)
    others, others_private = names_in(other)
    return not (
        private & others
        or own & others_private
        or private & names_of_headers(other)
        or others_private & names_of_headers(one)
    )


def is_test(source: Path) -> bool:
    return source.stem.endswith("_test") or source.is_relative_to(ROOT / "tests")


def main() -> int:
    folders = defaultdict(list)
    for top in FOLDERS:
        for source in sorted((ROOT / top).rglob("*.cpp")):
            folders[source.parent, is_test(source)].append(source)
    only_tests = sys.argv[1:] == ["--tests"]
    for (folder, tests), sources in folders.items():
        if only_tests and not tests:
            continue
        for number, group in enumerate(group for group in in_groups(sources) if len(group) > 1):
            name = "_".join([*folder.relative_to(ROOT).parts, *(["tests"] if tests else []), str(number)])
            for source in group:
                print(f"{name}={source.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
