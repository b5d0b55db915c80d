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
import time
from collections import Counter
from pathlib import Path
from typing import Iterator, List, Tuple

from testing.part import FOLDER, ROOT, Part
from testing.parts import MORE, PARTS, STANDARD
from testing.results import Failure, Record

MOST_FLAKY = 3
LOCK = Path(".setup") / "test.lock"
# In the parts: ranks share the cores, and nothing is fetched while tests run.
SETTINGS = {"OMP_NUM_THREADS": "1", "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def parser() -> argparse.ArgumentParser:
    def described(parts: object) -> str:
        return "\n".join(f"  {name:12} {PARTS[name].__doc__}" for name in parts)  # type: ignore[attr-defined]

    made = argparse.ArgumentParser(
        prog="tools/test",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Runs the tests. Without a name it runs the standard suite, which decides about a change: every\n"
        "part once, with fixed inputs. `tools/test all` runs everything else too. Missing tools are set up first.\n\n"
        f"the standard suite:\n{described(STANDARD)}\n\nonly in all, or by name:\n{described(MORE)}",
        epilog="A test that fails is run once more, alone, when all parts have ended. If it passes then, it is called\n"
        f"flaky, and the run passes with at most {MOST_FLAKY} of them. Logs are in .setup/test/PART/.",
    )
    made.add_argument("part", nargs="*", help="names of parts, or all")
    made.add_argument("--continue", dest="resume", action="store_true", help="leave out parts that passed on this tree")
    made.add_argument(
        "--repeat", type=int, default=1, metavar="N", help="run the parts N times; say how often tests fail"
    )
    made.add_argument("--load", type=int, default=0, metavar="K", help="run beside K processes that keep a core busy")
    made.add_argument("--seeds", type=int, metavar="N", help="world: N seeds for each simulated job")
    made.add_argument("--seed", type=int, metavar="S", help="world: play only this seed")
    made.add_argument("--rounds", type=int, metavar="N", help="attacks: make each attack N times")
    made.add_argument("--minutes", type=int, metavar="N", help="fuzz: N minutes for all targets together")
    return made


def main() -> int:
    arguments = parser().parse_args()
    names = list(STANDARD)
    if arguments.part:
        names = list(PARTS) if arguments.part == ["all"] else arguments.part
    if unknown := [name for name in names if name not in PARTS]:
        parser().error(f"no part is called {unknown[0]} ({' '.join(PARTS)}, all)")
    os.chdir(ROOT)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    options = {
        each: value
        for each in ("seeds", "seed", "rounds", "minutes")
        if (value := getattr(arguments, each)) is not None
    }
    for each in ("seeds", "seed"):
        if each in options:
            os.environ[f"FARANDOLE_WORLD_{each.upper()}"] = str(options[each])
    with only_run(), busy_processes(arguments.load):
        prepare(names)
        os.environ.update(SETTINGS)
        if arguments.repeat > 1:
            return repeat(names, options, arguments.repeat)
        return run_once(names, options, arguments.resume)


@contextlib.contextmanager
def only_run() -> Iterator[None]:
    """Two runs at a time would replace each other's files in .setup/test."""
    with LOCK.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"tools/test: another run holds {ROOT / LOCK}; start this one after its end")
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


def prepare(names: List[str]) -> None:
    """Fetches all that the parts need, and compiles the tests. Fetching is not a part of any test."""
    begin = time.monotonic()
    print("== test: prepare", flush=True)
    wanted = ["tools/setup"]
    if not STANDARD.keys().isdisjoint(names) or "slow" in names:
        wanted += ["--tests", "--clusters"] + (["--launch"] if os.geteuid() == 0 else [])
    if not MORE.keys().isdisjoint(names):
        wanted += ["--frameworks", "--editors"]
    for command in (wanted, ["flock", ".setup/build.lock", "cmake", "--build", "build"]):
        if subprocess.run(command, check=False).returncode != 0:
            sys.exit(f"tools/test: {' '.join(command)} failed")
    print(f"== test: prepare {time.monotonic() - begin:.0f} s", flush=True)


def tree() -> str:
    """Identifies the files of this checkout."""
    made = hashlib.sha256()
    for command in (
        ["git", "rev-parse", "HEAD"],
        ["git", "diff", "HEAD"],
        ["git", "ls-files", "-o", "--exclude-standard"],
    ):
        made.update(subprocess.run(command, check=True, capture_output=True).stdout)
    return made.hexdigest()


def run_part(name: str, options: dict[str, int]) -> Part:
    shutil.rmtree(FOLDER / name, ignore_errors=True)
    part = Part(name, tree(), options)
    begin = time.monotonic()
    print(f"== test: {name}", flush=True)
    PARTS[name](part)
    part.end()
    part.record.seconds = time.monotonic() - begin
    part.record.write(part.folder / "record.json")
    print(f"== test: {name} {part.record.seconds:.0f} s", flush=True)
    return part


def passed_before(name: str) -> bool:
    try:
        record = Record.read(FOLDER / name / "record.json")
    except FileNotFoundError:
        return False
    return record.tree == tree() and not record.failures


def run_once(names: List[str], options: dict[str, int], resume: bool) -> int:
    """Runs the parts, then each failed test alone, and prints the table of all parts."""
    parts = []
    for name in names:
        if resume and passed_before(name):
            print(f"== test: {name} has passed on this tree", flush=True)
        else:
            parts.append(run_part(name, options))
    failures, flaky = run_failed_again(parts)
    records = [(name, Record.read(FOLDER / name / "record.json")) for name in names]
    print(closing_block(records, failures, flaky))
    return 1 if failures or len(flaky) > MOST_FLAKY else 0


def run_failed_again(parts: List[Part]) -> Tuple[List[Failure], List[Failure]]:
    """The tests that fail also alone, and those that pass alone, whose first logs are kept in the folder flaky."""
    found = [(part, failure) for part in parts for failure in part.record.failures]
    repeatable = [failure for _, failure in found if failure.run]
    if not repeatable or len(repeatable) > MOST_FLAKY:
        return [failure for _, failure in found], []
    print("== test: the failed tests once more, alone", flush=True)
    failures, flaky = [], []
    for part, failure in found:
        if failure.run and part.carry_out_again(failure):
            flaky.append(failure)
            kept = part.folder.parent / "flaky"
            kept.mkdir(exist_ok=True)
            shutil.copy(failure.log, kept / f"{failure.part}-{Path(failure.log).name}")
        else:
            failures.append(failure)
    return failures, flaky


def repeat(names: List[str], options: dict[str, int], times: int) -> int:
    """Runs the parts several times and prints how often each test failed."""
    failed: Counter[str] = Counter()
    for number in range(times):
        print(f"== test: repetition {number + 1} of {times}", flush=True)
        for name in names:
            failed.update({failure.name for failure in run_part(name, options).record.failures})
    for test, count in failed.most_common():
        print(f"== test: {test} failed {count} of {times} times")
    print(f"== test: {times} repetitions of {' '.join(names)}: {len(failed)} tests failed at least once")
    return 1 if failed else 0


def closing_block(records: List[Tuple[str, Record]], failures: List[Failure], flaky: List[Failure]) -> str:
    """The last lines of a run: its slowest tests, its parts, and what failed."""
    slowest = sorted(((float(str(seconds)), str(test)) for _, each in records for test, seconds in each.durations))
    lines = ["the slowest tests:"]
    lines += [f"{seconds:8.1f} s  {test}" for seconds, test in reversed(slowest[-8:])]
    lines += [f"{'part':12} {'seconds':>8} {'tests':>6} {'skipped':>8} {'failed':>7}"]
    for name, each in records:
        lines.append(f"{name:12} {each.seconds:8.0f} {each.tests:6} {each.skipped:8} {len(each.failures):7}")
    lines.append(f"{'all':12} {sum(each.seconds for _, each in records):8.0f}")
    for label, found in (("flaky", flaky), ("FAILED", failures)):
        for failure in found[:8]:
            lines += [f"{label}: {failure.name}", f"    {failure.error}", f"    {failure.log}"]
        if len(found) > 8:
            lines.append(f"{label}: {len(found) - 8} more")
    if not failures and len(flaky) > MOST_FLAKY:
        lines.append(f"FAILED: {len(flaky)} flaky tests; at most {MOST_FLAKY} are accepted")
    lines.append("tools/test: " + ("failed" if failures or len(flaky) > MOST_FLAKY else "good"))
    return "\n".join(lines)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
