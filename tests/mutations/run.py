"""Plants deliberate faults, and runs the parts of the standard suite that must catch them."""

from __future__ import annotations

import argparse
import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, List, NamedTuple, Sequence, Set, Tuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from faults import FAULTS, Fault  # noqa: E402
from testing.results import Record, first_error  # noqa: E402

FOLDER = ROOT / ".setup" / "mutations"
TREE = FOLDER / "tree"
LOGS = FOLDER / "logs"
PARTS = Path(".setup") / "test"


class Outcome(NamedTuple):
    """A run of a part: whether it ran at all, whether a test failed in it, and the first line of error."""

    ran: bool
    failed: bool
    seconds: float
    error: str


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="tests/mutations/run.py",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Plants deliberate faults one after the other, and runs the part of the standard suite that must\n"
        "catch each: `tools/test PART --only WORD`. First it runs each of these parts without a fault.\n\n"
        "It works on HEAD, in a clone of its own in .setup/mutations/tree, which it sets up like any checkout (the\n"
        "first time that fetches the packages of all frameworks) and keeps for the next time. The logs are in\n"
        ".setup/mutations/logs. A fault that does not compile counts as not caught. The exit status is 1 if a fault\n"
        "was not caught, 2 if a fault's text is not in its file, or a part fails without a fault.",
        epilog="faults:\n" + "\n".join(f"  {each.name:14} {each.breaks}" for each in FAULTS),
    )
    made.add_argument("--only", action="append", metavar="NAME", help="plant only this fault; may be given again")
    return made


def main() -> int:
    arguments = parser().parse_args()
    known = {each.name for each in FAULTS}
    if unknown := sorted(set(arguments.only or ()) - known):
        parser().error(f"no fault is called {unknown[0]} ({', '.join(each.name for each in FAULTS)})")
    faults = [each for each in FAULTS if not arguments.only or each.name in arguments.only]
    LOGS.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"mutations: another run uses {TREE}", file=sys.stderr)
            return 2
        check_out()
        if missing := [each for each in faults if occurrences(each) != 1]:
            for each in missing:
                say(f"{each.name}: its text is {occurrences(each)} times in {each.file}; correct faults.py")
            return 2
        sound = selections_that_pass(faults)
        outcomes = {
            each.name: planted(each, place, len(faults))
            for place, each in enumerate(faults, 1)
            if each.selection in sound
        }
    print(table(faults, outcomes))
    if len(outcomes) < len(faults):
        return 2
    return 0 if all(each.failed for each in outcomes.values()) else 1


def say(text: str) -> None:
    print(f"mutations: {text}", flush=True)


def check_out() -> None:
    """Brings the clone to the commit of this checkout."""
    if subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, check=True, capture_output=True).stdout:
        say("changes that are not committed are left out")
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True)
    if not (TREE / ".git").exists():
        subprocess.run(["git", "clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(TREE)], check=True)
    for command in (["fetch", "--quiet", "origin", "HEAD"], ["checkout", "--quiet", "--force", commit.stdout.strip()]):
        subprocess.run(["git", *command], cwd=TREE, check=True)
    subprocess.run(["git", "clean", "-dfq"], cwd=TREE, check=True)  # ignored files, such as builds, stay


def occurrences(fault: Fault) -> int:
    file = TREE / fault.file
    return file.read_text().count(fault.text) if file.exists() else 0


def selections_that_pass(faults: Sequence[Fault]) -> Set[Tuple[str, str]]:
    """The parts that pass without a fault, of those that the faults name."""
    sound = set()
    for part, only in dict.fromkeys(each.selection for each in faults):
        say(f"tools/test {part} --only {only}, without a fault")
        outcome = run_part(part, only, f"{part}-{only.replace('/', '-')}")
        if outcome.ran and not outcome.failed:
            sound.add((part, only))
        say(f"passed in {outcome.seconds:.0f} s" if (part, only) in sound else f"FAILED: {outcome.error}")
    return sound


def planted(fault: Fault, place: int, count: int) -> Outcome:
    """The outcome of a fault's part while the fault is there."""
    say(f"[{place}/{count}] {fault.name}: {fault.breaks} In {fault.file}; tools/test {fault.part} --only {fault.only}")
    file = TREE / fault.file
    sound = file.read_text()
    try:
        file.write_text(sound.replace(fault.text, fault.faulty))
        outcome = run_part(fault.part, fault.only, f"fault-{fault.name}")
    finally:
        file.write_text(sound)
    say(f"{verdict(outcome)} in {outcome.seconds:.0f} s: {outcome.error}")
    return outcome


def run_part(part: str, only: str, log_name: str) -> Outcome:
    record_file = TREE / PARTS / part / "record.json"
    record_file.unlink(missing_ok=True)
    log = LOGS / f"{log_name}.log"
    begin = time.monotonic()
    with log.open("w") as target:
        status = subprocess.run(
            ["tools/test", part, "--only", only],
            cwd=TREE,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=target,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    seconds = time.monotonic() - begin
    # A failure without a run is that of a build, or of a selection that is empty.
    failures = Record.read(record_file).failures if record_file.exists() else []
    ran = record_file.exists() and all(each.run for each in failures)
    if failures:
        error = f"{failures[0].test}: {failures[0].error}" if failures[0].test else failures[0].error
    else:
        error = "" if status == 0 else first_error(log.read_text(errors="replace")) or f"ended with status {status}"
    return Outcome(ran, ran and status != 0 and bool(failures), seconds, error)


def environment() -> Dict[str, str]:
    """Without what a test command around this one has set."""
    return {name: value for name, value in os.environ.items() if name != "PIP_NO_INDEX"}


def verdict(outcome: Outcome) -> str:
    return "caught" if outcome.failed else "NOT CAUGHT" if outcome.ran else "DOES NOT BUILD"


def table(faults: Sequence[Fault], outcomes: Dict[str, Outcome]) -> str:
    lines: List[str] = [f"{'fault':14} {'part':42} {'result':14} {'seconds':>7}  first error"]
    for each in faults:
        part = f"{each.part} --only {each.only}"
        if outcome := outcomes.get(each.name):
            lines.append(
                f"{each.name:14} {part:42} {verdict(outcome):14} {outcome.seconds:7.0f}  {outcome.error[:100]}"
            )
        else:
            lines.append(f"{each.name:14} {part:42} {'NOT TRIED':14} {'':7}  the part fails without the fault")
    caught = sum(each.failed for each in outcomes.values())
    lines.append(f"mutations: {caught} of {len(faults)} faults were caught")
    return "\n".join(lines)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
