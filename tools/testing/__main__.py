"""The command line of tools/test."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, Tuple

from testing.isolation import remove_stale_folders, why_not
from testing.part import FOLDER, INTERRUPTED, ROOT, Part
from testing.parts import MORE, NEEDS, PARTS, STANDARD
from testing.results import OF_CHECKS, TELLING, Failure, Record, first_error

MOST_FLAKY = 3
MOST_REPEATED = 10
# The lines of the closing block. Those of tools/check, ten at most, follow it in .ci/run: all fit on a page of 40.
MOST_LINES = 30
MOST_SLOW = 4
LOCK = Path(".setup") / "test.lock"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "farandole"
# In the parts: ranks share the cores, nothing is fetched while tests run, and TorchInductor keeps its programs.
SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "PIP_NO_INDEX": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "TORCHINDUCTOR_CACHE_DIR": str(CACHE / "torchinductor"),
}


def parser() -> argparse.ArgumentParser:
    def described(parts: Iterable[str]) -> str:
        return "\n".join(f"  {name:14} {PARTS[name].__doc__}" for name in parts)

    made = argparse.ArgumentParser(
        prog="tools/test",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Runs the tests. Without a name it runs the standard suite, which decides about a change: every\n"
        "part once, with fixed inputs. `tools/test all` runs everything else too. Missing tools are set up first.\n\n"
        f"the standard suite:\n{described(STANDARD)}\n\nonly in all, or by name:\n{described(MORE)}",
        epilog="A test that fails is run once more, alone, when all parts have ended, unless more than\n"
        f"{MOST_REPEATED} have failed. If it passes then, it is called flaky, and the run passes with at most\n"
        f"{MOST_FLAKY} of them. Logs are in .setup/test/PART/.",
    )
    made.add_argument("part", nargs="*", help="names of parts, or all")
    made.add_argument("--continue", dest="resume", action="store_true", help="leave out parts that passed on this tree")
    made.add_argument(
        "--repeat", type=int, default=1, metavar="N", help="run the parts N times; say how often tests fail"
    )
    made.add_argument(
        "--only", default="", metavar="WORD", help="only files, C++ runners and programs with WORD in their names"
    )
    made.add_argument("--load", type=int, default=0, metavar="K", help="run beside K processes that keep a core busy")
    made.add_argument(
        "--seeds", type=int, metavar="N", help="world: N seeds for each simulated job; recipes: N recipes"
    )
    made.add_argument("--seed", type=int, metavar="S", help="world, recipes: play only this seed")
    made.add_argument("--rounds", type=int, metavar="N", help="attacks: make each attack N times")
    made.add_argument("--minutes", type=int, metavar="N", help="fuzz: N minutes for all targets together")
    return made


def main() -> int:
    arguments = parser().parse_args()
    names = list(STANDARD)
    if arguments.part:
        names = list(PARTS) if "all" in arguments.part else arguments.part
    if unknown := [name for name in names if name not in PARTS]:
        parser().error(f"no part is called {unknown[0]} ({' '.join(PARTS)}, all)")
    os.chdir(ROOT)
    # The shell of a script ignores SIGINT in commands in the background, and what the tests start would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    options = {
        each: value
        for each in ("seeds", "seed", "rounds", "minutes")
        if (value := getattr(arguments, each)) is not None
    }
    with only_run(), busy_processes(arguments.load):
        preparing = prepare(names)
        if preparing.failures:
            print(closing_block([("prepare", preparing)], preparing.seconds, preparing.failures, []))
            return 1
        os.environ.update(SETTINGS)
        if arguments.repeat > 1:
            return repeat(names, options, arguments.only, arguments.repeat)
        return run_once(names, options, arguments.only, arguments.resume, preparing.seconds)


@contextlib.contextmanager
def only_run() -> Iterator[None]:
    """Two runs at a time would replace each other's files in .setup/test. Removes what killed runs have left."""
    with LOCK.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"tools/test: another run holds {ROOT / LOCK}; start this one after its end")
        remove_stale_folders(ROOT)
        if problem := why_not(ROOT):
            print(f"tools/test: runs share /dev/shm, names of namespaces and the network of this machine ({problem})")
        yield


@contextlib.contextmanager
def busy_processes(number: int) -> Iterator[None]:
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def prepare(names: List[str]) -> Record:
    """Fetches all that the parts need before any test runs, and compiles the tests beside it, because installing mostly
    waits. Returns its seconds and what failed."""
    begin = time.monotonic()
    print("== test: prepare", flush=True)
    options = sorted({option for name in names for option in NEEDS.get(name, ())})
    if os.geteuid() != 0:  # the tests that need it are skipped
        options = [option for option in options if option != "--launch"]
    commands = (["tools/setup", *options], ["flock", ".setup/build.lock", "cmake", "--build", "build"])
    folder = FOLDER / "prepare"
    folder.mkdir(parents=True, exist_ok=True)
    logs = [folder / f"run-{number}.log" for number in (1, 2)]
    copying = ("bash", "-o", "pipefail", "-c", '"$@" 2>&1 | tee "$0"')
    running = [subprocess.Popen([*copying, str(log), *command]) for command, log in zip(commands, logs)]
    made = Record("")
    for command, log, process in zip(commands, logs, running):
        if status := process.wait():
            error = first_error(log.read_text(errors="replace"), (*TELLING, *OF_CHECKS))
            made.failures.append(
                Failure("prepare", 0, " ".join(command), error or f"ended with status {status}", str(log))
            )
    made.seconds = time.monotonic() - begin
    print(f"== test: prepare {made.seconds:.0f} s", flush=True)
    return made


def tree() -> str:
    """Identifies the files of this checkout."""
    made = hashlib.sha256()
    for command in (["git", "rev-parse", "HEAD"], ["git", "diff", "HEAD"]):
        made.update(subprocess.run(command, check=True, capture_output=True).stdout)
    others = subprocess.run(["git", "ls-files", "-oz", "--exclude-standard"], check=True, capture_output=True).stdout
    for name in filter(None, others.split(b"\0")):
        made.update(name + Path(os.fsdecode(name)).read_bytes())
    return made.hexdigest()


def run_parts(names: List[str], options: Dict[str, int], only: str) -> List[Part]:
    """Runs the parts of the standard suite two at a time, because one alone leaves up to a third of two processors
    idle, and the others one after the other."""
    parts: List[Part] = []
    for together, group in groupby(names, lambda name: name in STANDARD):
        chosen = list(group)
        if together and len(chosen) > 1:
            parts += run_two_at_a_time(chosen, options, only)
        else:
            parts += [run_part(name, options, only) for name in chosen]
    return parts


def run_two_at_a_time(names: List[str], options: Dict[str, int], only: str) -> List[Part]:
    def run(name: str) -> Part:
        if INTERRUPTED.is_set():
            raise KeyboardInterrupt
        try:
            return run_part(name, options, only, is_alone=False)
        except BaseException:
            INTERRUPTED.set()  # ends the part beside it, and no further one begins
            raise

    with ThreadPoolExecutor(2) as threads:
        try:
            parts = [threads.submit(run, name) for name in names]
            wait(parts)
        except BaseException:
            INTERRUPTED.set()
            raise
    for each in parts:
        if (problem := each.exception()) and not isinstance(problem, KeyboardInterrupt):
            raise problem
    return [each.result() for each in parts]


def run_part(name: str, options: Dict[str, int], only: str, is_alone: bool = True) -> Part:
    shutil.rmtree(FOLDER / name, ignore_errors=True)
    part = Part(name, tree(), options, FOLDER, is_alone)
    part.only = part.record.only = only
    begin = time.monotonic()
    print(f"== test: {name}", flush=True)
    PARTS[name](part)
    if part.record.tests == 0 and only and not part.record.failures and all(run.kind != "command" for run in part.runs):
        part.fail("", f"no file, runner or program of this part has {only} in its name", part.folder)
    part.record.seconds = time.monotonic() - begin
    part.write_record()
    print(f"== test: {name} {part.record.seconds:.0f} s", flush=True)
    return part


def passed_before(name: str, options: Dict[str, int], only: str) -> bool:
    try:
        record = Record.read(FOLDER / name / "record.json")
    except FileNotFoundError:
        return False
    return (record.tree, record.options, record.only) == (tree(), options, only) and not record.failures


def run_once(names: List[str], options: Dict[str, int], only: str, resume: bool, preparing: float) -> int:
    """Runs the parts, then each failed test alone, and prints the table of all parts."""
    shutil.rmtree(FOLDER / "flaky", ignore_errors=True)
    begin = time.monotonic()
    passed = [name for name in names if resume and passed_before(name, options, only)]
    for name in passed:
        print(f"== test: {name} has passed on this tree", flush=True)
    parts = run_parts([name for name in names if name not in passed], options, only)
    began_again = time.monotonic()
    failures, flaky = run_failed_again(parts)
    if len(flaky) <= MOST_FLAKY:
        for part in parts:
            part.record.accept(flaky)
            part.write_record()
    end = time.monotonic()
    records = [("prepare", Record("", seconds=preparing))]
    records += [(name, Record.read(FOLDER / name / "record.json")) for name in names]
    before = sum(each.seconds for name, each in records if name in passed)
    records.append(("again", Record("", seconds=end - began_again)))
    print(closing_block(records, preparing + before + end - begin, failures, flaky))
    return 1 if failures or len(flaky) > MOST_FLAKY else 0


def run_failed_again(parts: List[Part]) -> Tuple[List[Failure], List[Failure]]:
    """The tests that fail also alone, and those that pass alone, whose first logs are kept in the folder flaky."""
    found = [(part, failure) for part in parts for failure in part.record.failures]
    if not found or len(found) > MOST_REPEATED:
        return [failure for _, failure in found], []
    print("== test: the failed tests once more, alone", flush=True)
    failures, flaky = [], []
    for part, failure in found:
        if failure.run and part.carry_out_again(failure):
            flaky.append(keep_log(failure, part.folder.parent / "flaky", failure.part))
        else:
            failures.append(failure)
    return failures, flaky


def keep_log(failure: Failure, folder: Path, prefix: str) -> Failure:
    """Copies the log of a failure to a folder, where the next run of its part does not replace it. Returns the failure
    with the log that is kept."""
    folder.mkdir(exist_ok=True)
    kept = shutil.copy(failure.log, folder / f"{prefix}-{Path(failure.log).name}")
    return replace(failure, log=str(kept))


def repeat(names: List[str], options: Dict[str, int], only: str, times: int) -> int:
    """Runs the parts several times and prints how often each test failed. The logs of failures are kept."""
    failed: Dict[str, List[Failure]] = {}
    shutil.rmtree(FOLDER / "repeat", ignore_errors=True)
    for number in range(1, times + 1):
        print(f"== test: repetition {number} of {times}", flush=True)
        for part in run_parts(names, options, only):
            for failure in part.record.failures:
                kept = keep_log(failure, FOLDER / "repeat", f"{number}-{part.name}")
                failed.setdefault(failure.name, []).append(kept)
    for test, found in sorted(failed.items(), key=lambda item: -len(item[1])):
        print(f"failed {len(found)} of {times} times: {test}\n    {found[0].error}\n    {found[0].log}")
    print(f"tools/test: {times} repetitions of {' '.join(names)}: {len(failed)} tests failed at least once")
    return 1 if failed else 0


def closing_block(
    records: List[Tuple[str, Record]], seconds: float, failures: List[Failure], flaky: List[Failure]
) -> str:
    """The last lines of a run: its slowest tests, its parts, its seconds, and what failed. They fit on a page: the
    names of the failures without a line of their own share one."""
    header = f"{'part':14} {'seconds':>7} {'tests':>6} {'skipped':>7} {'failed':>6}"
    cells = [
        f"{name:14} {each.seconds:7.0f} {each.tests:6} {each.skipped:7} {len(each.failures):6}"
        for name, each in records
    ]
    cells.append(f"{'all':14} {seconds:7.0f}")
    rows = -(-len(cells) // 2)
    lines = [f"{header}   {header}"]
    lines += [f"{left:{len(header)}}   {right}".rstrip() for left, right in zip(cells[:rows], [*cells[rows:], ""])]
    closing = [f"FAILED: {len(flaky)} flaky tests; at most {MOST_FLAKY} are accepted"] * (len(flaky) > MOST_FLAKY)
    closing.append("tools/test: " + ("failed" if failures or len(flaky) > MOST_FLAKY else "good"))
    found = [("FAILED", failure) for failure in failures] + [("flaky", failure) for failure in flaky]
    room = MOST_LINES - len(lines) - len(closing)
    shown = found if len(found) <= room else found[: max(0, room - 1)]
    lines += [f"{label}: {each.name}: {' '.join(each.error.splitlines())} ({each.log})" for label, each in shown]
    if more := [failure.name for _, failure in found[len(shown) :]]:
        names = textwrap.shorten(", ".join(more), 4000, placeholder=" …")
        lines.append(f"FAILED: {len(more)} more, see .setup/test/PART/record.json: {names}")
    slowest = sorted(((seconds, test) for _, each in records for test, seconds in each.durations), reverse=True)
    spare = max(0, min(MOST_SLOW, room - len(found)))
    slow = [f"slow: {seconds:.0f} s {test}" for seconds, test in slowest[:spare]]
    return "\n".join([*slow, *lines, *closing])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
