"""Runs the tests that need a GPU, with a Python of this machine and its PyTorch, and ends with a table of what ran,
what did not, and why. Installs nothing. Without a GPU it fails: a run without tests is not a pass.

The ranks of the tests share a GPU, or use different ones if there are several. All steps together take 8 minutes at
most. If STAND_IN_DRIVER names a library, it takes the place of NVIDIA's driver, and the table says so.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Mapping, Sequence, Tuple

from gpu_tests import bounded, layout, outcomes, steps, table
from gpu_tests.layout import Layout
from gpu_tests.machine import NO_STAND_IN, CannotRun, Machine, environment_of, examine
from gpu_tests.steps import Run

LEAST_SECONDS = 10
"""A run is not begun if less of the time is left."""
TAIL_LINES = 120
"""Of the output of a run that failed."""


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # leaves through `finally`
    try:
        if options.bundle:
            return in_bundle(Path(options.bundle), "gpu", passed_on(options))
        text, is_good = run_all(options)
    except CannotRun as reason:
        text, is_good = f"gpu: FAILED: no test has run: {reason}\n", False
    except KeyboardInterrupt:
        return 130
    print(text, end="", flush=True)
    if options.report:
        Path(options.report).write_text(text)
    return 0 if is_good else 1


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--bundle", metavar="DIR", help="use this folder made by tools/bundle, not the build of the tree"
    )
    parser.add_argument("--python", metavar="PATH", default="python3", help="runs the tests (default: python3)")
    parser.add_argument("--report", metavar="FILE", help="write the table to this file, too")
    names = [step.name for step in steps.STEPS]
    parser.add_argument(
        "--only", metavar="STEP[,STEP]", type=names_in(names, "step"), default=names, help=", ".join(names)
    )
    parser.add_argument(
        "--ranks", metavar="N[,N]", type=numbers, default=[2, 3], help="numbers of ranks (default: 2,3)"
    )
    return parser.parse_args(arguments)


def names_in(names: Sequence[str], kind: str):  # type: ignore[no-untyped-def]
    def read(text: str) -> List[str]:
        unknown = [name for name in text.split(",") if name not in names]
        if unknown:
            raise argparse.ArgumentTypeError(f"no {kind} is called {unknown[0]} ({', '.join(names)})")
        return text.split(",")

    return read


def numbers(text: str) -> List[int]:
    found = [int(number) for number in text.split(",") if number.isdigit() and int(number) > 0]
    if len(found) != len(text.split(",")):
        raise argparse.ArgumentTypeError(f"{text} is no list of numbers of ranks")
    return found


def passed_on(options: argparse.Namespace) -> List[str]:
    words = ["--python", options.python, "--only", ",".join(options.only)]
    words += ["--ranks", ",".join(map(str, options.ranks))]
    return words + (["--report", str(Path(options.report).resolve())] if options.report else [])


def in_bundle(bundle: Path, part: str, options: Sequence[str]) -> int:
    """Lets the bundle's own command run a part of it."""
    command = bundle.resolve() / "tests" / "run_tests"
    if not command.exists():
        raise CannotRun(f"{bundle} is no folder made by tools/bundle: {command} does not exist")
    sys.stdout.flush()
    os.execv(command, [str(command), part, *options])


@dataclass(frozen=True)
class Prepared:
    """The tree or bundle, and the Python and the machine that were examined with it."""

    place: Layout
    python: str
    environment: Mapping[str, str]
    machine: Machine


def prepare(given_python: str, part: str) -> Prepared:
    """Raises CannotRun if nothing can run here."""
    place = layout.find()
    if place.problem():
        raise CannotRun(place.problem())
    stand_in = os.environ.get("STAND_IN_DRIVER", "")
    stand_in = "" if stand_in == NO_STAND_IN else stand_in
    python = os.path.abspath(shutil.which(given_python) or given_python)
    if stand_in and not Path(stand_in).exists():
        raise CannotRun(f"there is no {stand_in}, which STAND_IN_DRIVER names")
    if stand_in:
        stand_in = str(Path(stand_in).resolve())
        print(f"{part}: {table.STAND_IN}", flush=True)
    environment = environment_of(place, python, stand_in)
    return Prepared(place, python, environment, examine(place, python, environment, stand_in))


def run_all(options: argparse.Namespace) -> Tuple[str, bool]:
    """The table, and whether it is good."""
    prepared = prepare(options.python, "gpu")
    bounded.adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="farandole-gpu-") as work:
        session = Session(prepared.place, prepared.python, prepared.environment, Path(work))
        results = run_steps(session, prepared.machine, options)
    return table.text_of(results, prepared.machine), results.is_good()


class Session:
    """What all runs have in common. Logs and records are in `work`."""

    def __init__(self, place: Layout, python: str, environment: Mapping[str, str], work: Path) -> None:
        self.place = place
        self.python = python
        self.environment = environment
        self.work = work
        self.deadline = time.monotonic() + steps.ALL_SECONDS

    def seconds_left(self) -> float:
        return self.deadline - time.monotonic()

    def command(self, run: Run, bound: float) -> List[str]:
        launched = [] if run.step.launches else [str(self.place.launcher), "-np", str(run.ranks)]
        if run.step.wrapper:
            launched.append(str(self.place.tests / run.step.wrapper))
        pytest = [self.python, "-m", "pytest", "-q", "-c", str(self.place.settings), "-p", "no:cacheprovider"]
        # A test that hangs prints its stack before the run is ended.
        stacks = ["-o", f"faulthandler_timeout={max(LEAST_SECONDS, int(bound * 0.8))}"]
        tests = [str(self.place.tests / test) for test in run.step.tests]
        return [*launched, *pytest, *stacks, "-p", "gpu_tests.record", *run.step.options, *tests]

    def run(self, run: Run) -> table.Row:
        bound = min(run.step.seconds, self.seconds_left())
        folder = self.work / f"{run.step.name}-{run.ranks}"
        folder.mkdir()
        log = folder / "log"
        environment: Dict[str, str] = {**self.environment, **run.step.settings, "GPU_TESTS_RECORD": str(folder)}
        try:
            ended = bounded.run(self.command(run, bound), environment, log, bound)
        finally:
            bounded.end_orphans()
        row = table.Row(run.step.name, run.ranks, outcomes.read(folder, run.ranks), ended.problem(bound), ended.seconds)
        if not row.is_good():
            print(f"gpu: the end of the output of {run}:", *tail(log), sep="\n", flush=True)
        return row


def run_steps(session: Session, machine: Machine, options: argparse.Namespace) -> table.Results:
    results = table.Results()
    for run in steps.runs_of(steps.STEPS, options.ranks):
        if run.step.name not in options.only:
            results.left_out.append((str(run), "it was not asked for (--only)"))
        elif obstacle := run.step.obstacle(machine):
            results.left_out.append((str(run), obstacle))
        elif session.seconds_left() < LEAST_SECONDS:
            results.missed.append((str(run), f"the steps before took the {steps.ALL_SECONDS} s that all may take"))
        else:
            print(f"gpu: {run} …", flush=True)
            results.rows.append(session.run(run))
            print(f"gpu: {run}: {results.rows[-1].summary()}", flush=True)
    return results


def tail(log: Path) -> List[str]:
    return log.read_text(errors="replace").splitlines()[-TAIL_LINES:]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
