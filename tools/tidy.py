#!/usr/bin/env python3
"""Runs clang-tidy over the C++ of the tree, and over nothing twice.

clang-tidy knows no cache, and a file takes seconds. So a file that passed leaves a stamp named after everything its
verdict depended on: the tool, the configuration, its compile command, itself and every header of the project that it
includes. It is looked at again only when one of these has changed. The stamps lie in the user's cache folder, beside
those of ccache, so other checkouts of the same source use them, too.

Most of the time goes into headers, so files are checked together, as one source that includes them. Only if there are
complaints are files checked alone: those that the complaints concern.
"""

import argparse
import concurrent.futures
import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from functools import cache
from pathlib import Path

import source_groups

ROOT = Path(__file__).resolve().parent.parent
STAMPS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "farandole" / "tidy"
STAMP_DAYS = 30
MOST_SOURCES = 32
# What g++ is told and clang does not understand.
QUIET = [
    "-Wno-unknown-warning-option",
    "-Wno-ignored-optimization-argument",
    "-Wno-ignored-gch",
    "-Wno-bitwise-conditional-parentheses",
]

# In a group, the files themselves are headers, too.
GROUP_FILTER = r"/(messages|collectives|elastic|cuda|actors|bindings|tools|tests|docs)/.*\.(hpp|cpp|h|c)$"
UNREADABLE = "[clang-diagnostic-error"
# What differs between the commands of files that are compiled with the same options.
OWN_PATHS = re.compile(r" -o \S+| -c \S+| -M[TF] \S+")
# g++'s precompiled headers are none to clang.
PRECOMPILED = re.compile(r" -Winvalid-pch| -include \S*cmake_pch\.hxx")


def without_precompiled(build: Path) -> Path:
    """A folder with the build's compile commands, less what names a precompiled header."""
    folder = ROOT / ".setup" / "tidy-commands"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    commands = PRECOMPILED.sub("", (build / "compile_commands.json").read_text())
    (folder / "compile_commands.json").write_text(commands)
    return folder


def groups_of(sources: list[tuple[Path, str]]) -> list[list[Path]]:
    """The files that are compiled with the same options, in groups."""
    same = defaultdict(list)
    for source, command in sources:
        same[OWN_PATHS.sub("", PRECOMPILED.sub("", command))].append(source)
    return [group for all_of in same.values() for group in source_groups.in_groups(all_of, MOST_SOURCES)]


def together(build: Path, number: int, sources: list[Path]) -> Path:
    """A folder with a source that includes all of these, and with its compile command, which is that of the first."""
    folder = build / f"group-{number}"
    folder.mkdir()
    all_of = folder / "group.cpp"
    all_of.write_text("".join(f'#include "{source}"  // NOLINT(bugprone-suspicious-include)\n' for source in sources))
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if entry["file"] == str(sources[0]):
            entry["command"] = entry["command"].replace(f" -c {sources[0]}", f" -c {all_of}")
            entry["file"] = str(all_of)
            (folder / "compile_commands.json").write_text(json.dumps([entry]))
            break
    return folder


@cache
def content_hash(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def stamp_of(source: Path, command: str, configuration: bytes) -> Path:
    digest = hashlib.sha256(configuration + command.replace(str(ROOT), ".").encode())
    for path in sorted(source_groups.closure(source)):
        digest.update(str(path.relative_to(ROOT)).encode() + content_hash(path))
    return STAMPS / digest.hexdigest()


def remove_unused_stamps() -> None:
    oldest = time.time() - STAMP_DAYS * 24 * 3600
    for stamp in STAMPS.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another checkout may do the same
            if stamp.stat().st_mtime < oldest:
                stamp.unlink()


def entries(build: Path) -> list[tuple[Path, str]]:
    """The files to check, with their commands. Tests are left out: they take half of the time, and clang-tidy's
    complaints about them concern only the style of their expectations."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = Path(entry["file"])
        inside = source.is_relative_to(ROOT) and source.relative_to(ROOT).parts[0] in source_groups.FOLDERS
        if inside and source.exists() and ".venv" not in source.parts and not source_groups.is_test(source):
            found[source] = entry["command"]
    return sorted(found.items())


def complaints_of(tool: str, build: Path, source: Path, *options: str) -> str:
    """Runs clang-tidy on one source; empty if it has no complaints."""
    ran = subprocess.run(
        [tool, "--quiet", "-p", str(build), *(f"--extra-arg={flag}" for flag in QUIET), *options, str(source)],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    # Cap'n Proto 0.9's headers do not compile as C++20 with every clang, so only complaints about this tree's own
    # files count.
    blocks = re.split(r"(?m)^(?=\S+:\d+:\d+: (?:warning|error|note): )", ran.stdout)
    said = "".join(block for block in blocks if block.startswith(str(ROOT)))
    if not said and not ran.stdout.strip() and ran.returncode != 0:
        said = ran.stderr
    return said


def tidy(tool: str, build: Path, number: int, sources: list[Path]) -> list[tuple[Path, str, float]]:
    """Checks the files of a group: each file, the complaints (empty if there are none) and the seconds it took."""
    begin = time.monotonic()
    suspects = sources
    if len(sources) > 1:
        folder = together(build, number, sources)
        complaints = complaints_of(tool, folder, folder / "group.cpp", f"--header-filter={GROUP_FILTER}")
        suspects = [source for source in sources if concern(complaints, source)] or (sources if complaints else [])
    share = (time.monotonic() - begin) / len(sources)
    result = [(source, "", share) for source in sources if source not in suspects]
    for source in suspects:
        begin = time.monotonic()
        result.append((source, complaints_of(tool, build, source), time.monotonic() - begin))
    return result


def concern(complaints: str, source: Path) -> bool:
    """Whether a group's complaints may be of this file: they name it or a header of it. After an error the rest of the
    group was not checked."""
    return UNREADABLE in complaints or any(f"{path}:" in complaints for path in source_groups.closure(source))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--tool", default="clang-tidy-16")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--again", action="store_true", help="check files that have passed before, too")
    parser.add_argument("only", nargs="*", help="beginnings of paths; all files without it")
    arguments = parser.parse_args()

    STAMPS.mkdir(parents=True, exist_ok=True)
    remove_unused_stamps()
    version = subprocess.run([arguments.tool, "--version"], check=True, capture_output=True).stdout
    configuration = version + (ROOT / ".clang-tidy").read_bytes()
    wanted = []
    everything = entries(arguments.build)
    commands = without_precompiled(arguments.build)
    for source, command in everything:
        if arguments.only and not str(source.relative_to(ROOT)).startswith(tuple(arguments.only)):
            continue
        stamp = stamp_of(source, command, configuration)
        if stamp.exists() and not arguments.again:
            stamp.touch()
        else:
            wanted.append((source, command, stamp))
    print(f"clang-tidy: {len(wanted)} of {len(everything)} files to look at", flush=True)

    bad = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        groups = groups_of([(source, command) for source, command, stamp in wanted])
        stamps = {source: stamp for source, command, stamp in wanted}
        jobs = [pool.submit(tidy, arguments.tool, commands, *what) for what in enumerate(groups)]
        for done in concurrent.futures.as_completed(jobs):
            for source, complaints, seconds in done.result():
                if complaints:
                    bad += 1
                    print(complaints, flush=True)
                else:
                    stamps[source].touch()
                verdict = "BAD" if complaints else "good"
                print(f"clang-tidy: {source.relative_to(ROOT)} {verdict} {seconds:.0f} s", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
