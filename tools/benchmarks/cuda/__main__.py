"""Measures operations on GPU tensors and their rivals on one GPU, with a Python of this machine and its PyTorch, and
prints a table. Installs nothing. Takes 8 minutes at most. Without a GPU it fails.

If STAND_IN_DRIVER names a library, it takes the place of NVIDIA's driver, and the figures mean nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from gpu_tests import bounded
from gpu_tests.__main__ import Prepared, in_bundle, names_in, prepare, tail
from gpu_tests.machine import PROBE_SECONDS, CannotRun
from namespaces.ports import free_ports

from benchmarks import report
from benchmarks.cuda import table
from benchmarks.cuda.rows import ALL_SECONDS, JOBS, ROWS, Job
from benchmarks.elastic import changes_to, times

ROUNDS = 15
KILLS = 5
LEAST_SECONDS = 10
"""A job is not begun if less of the time is left."""
SHARE_OF_ROUNDS = 0.6
"""Of a job's time; the rest is for imports, tensors and models."""
NCCL_PROBE = "import farandole.numpy as hvd; print(hvd.nccl_built())"


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # leaves through `finally`
    try:
        if options.bundle:
            return in_bundle(Path(options.bundle), "bench", passed_on(options))
        prepared = prepare(options.python, "bench")
    except CannotRun as reason:
        print(f"bench: FAILED: nothing was measured: {reason}")
        return 1
    if options.write and (prepared.machine.stand_in or prepared.place.is_bundle):
        print("bench: --write keeps results of hardware in a tree: unset STAND_IN_DRIVER, or leave out --write")
        return 1
    try:
        results = measure_all(prepared, options)
    except KeyboardInterrupt:
        return 130
    text = table.text_of(results, prepared.machine, rounds(options))
    print(text, end="", flush=True)
    if options.report:
        Path(options.report).write_text(text)
    if options.write:
        report.write("cuda", text)
    return 0 if results.is_good() else 1


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench cuda", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--bundle", metavar="DIR", help="use this folder made by tools/bundle, not the build of the tree"
    )
    parser.add_argument("--python", metavar="PATH", default="python3", help="measures (default: python3)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"most rounds of a row ({ROUNDS})")
    names = list(dict.fromkeys(row.measure for row in ROWS))
    parser.add_argument(
        "--only", metavar="ROW[,ROW]", type=names_in(names, "row"), default=names, help=", ".join(names)
    )
    parser.add_argument("--report", metavar="FILE", help="write the table to this file, too")
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, two rounds: does the benchmark itself work?")
    options = parser.parse_args(arguments)
    if options.write and (options.smoke or options.bundle or options.only != names):
        parser.error("--write keeps all rows, in this tree: leave out --only, --smoke and --bundle")
    return options


def passed_on(options: argparse.Namespace) -> List[str]:
    words = ["--python", options.python, "--rounds", str(options.rounds), "--only", ",".join(options.only)]
    if options.report:
        words += ["--report", str(Path(options.report).resolve())]
    return words + (["--smoke"] if options.smoke else [])


def rounds(options: argparse.Namespace) -> int:
    return 2 if options.smoke else int(options.rounds)


def measure_all(prepared: Prepared, options: argparse.Namespace) -> table.Results:
    results = table.Results()
    deadline = time.monotonic() + ALL_SECONDS
    bounded.adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="farandole-bench-") as work:
        for job in JOBS:
            chosen = [name for name in job.measures if name in options.only]
            left_out = set(job.measures) - set(chosen)
            results.left_out.update((name, "it was not asked for (--only)") for name in sorted(left_out))
            obstacle = obstacle_of(job, prepared) if chosen else ""
            bound = min(job.seconds, deadline - time.monotonic())
            if obstacle:
                results.left_out.update((name, obstacle) for name in chosen)
            elif chosen and bound < LEAST_SECONDS:
                results.problems.update((name, f"the {ALL_SECONDS} s for all rows were over") for name in chosen)
            elif chosen:
                begin = time.monotonic()
                run_job(Run(prepared, job, chosen, Path(work) / job.name, bound), options, results)
                taken = f"{', '.join(chosen)}: {time.monotonic() - begin:.1f} s"
                print(f"bench: {taken}", file=sys.stderr, flush=True)
    return results


def obstacle_of(job: Job, prepared: Prepared) -> str:
    """Why a job cannot run here; empty if it can."""
    machine = prepared.machine
    if job.needs == "nccl":
        return nccl_obstacle(prepared)
    if job.needs == "cuda":
        return machine.problem_with("torch") or ("" if machine.stand_in else machine.problem_with("cuda"))
    return machine.problem_with(job.needs)


def nccl_obstacle(prepared: Prepared) -> str:
    if prepared.machine.stand_in:
        return "NCCL needs a GPU, and not a stand-in driver"
    command = [prepared.python, "-c", NCCL_PROBE]
    ran = subprocess.run(
        command, env=dict(prepared.environment), check=False, capture_output=True, text=True, timeout=PROBE_SECONDS
    )
    if ran.returncode != 0:
        last = (ran.stderr.strip().splitlines() or [f"it ended with status {ran.returncode}"])[-1]
        return f"hvd.nccl_built() failed: {last}"
    return "" if ran.stdout.strip() != "0" else "this build of Farandole does not use NCCL"


class Run:
    """A job, the measurements that it takes, its folder and its time."""

    def __init__(self, prepared: Prepared, job: Job, measures: List[str], folder: Path, bound: float) -> None:
        self.prepared = prepared
        self.job = job
        self.measures = measures
        self.folder = folder
        self.bound = bound
        folder.mkdir()

    def environment(self) -> Dict[str, str]:
        kept = dict(self.prepared.environment)
        kept["PYTHONPATH"] = os.pathsep.join([kept["PYTHONPATH"], str(self.prepared.place.tests / "parallel")])
        if self.job.needs != "nccl":  # all ranks share the first GPU that is visible
            kept["CUDA_VISIBLE_DEVICES"] = kept.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
        # Jobs whose workers are killed leave their event records there.
        return {**kept, "XDG_STATE_HOME": str(self.folder), **self.job.settings}

    def shares_gpus_by_nccl(self) -> bool:
        """NCCL lets ranks use the same GPU only if it takes them to be on different hosts."""
        gpus = sum(name == "GPU" for name, _ in self.prepared.machine.facts)
        return self.job.needs == "nccl" and gpus < self.job.ranks

    def launch(self, *words: str, seconds: float, log: str = "log") -> Tuple[str, str]:
        """Runs a module with the launcher. Returns the problem, empty if there is none, and the output."""
        place, path = self.prepared.place, self.folder / log
        flags = ["-np", str(self.job.ranks)]
        if self.job.is_elastic:
            flags += ["--min-np", "2", "-H", f"localhost:{self.job.ranks}", "--blacklist-cooldown-range", "600", "700"]
        wrapper = [str(place.tests / "parallel" / "on_own_hosts")] if self.shares_gpus_by_nccl() else []
        command = [str(place.launcher), *flags, *wrapper, self.prepared.python, "-m", *words]
        try:
            ended = bounded.run(command, self.environment(), path, seconds)
        finally:
            bounded.end_orphans()
        problem = ended.problem(seconds)
        if problem:
            print(f"bench: the end of the output of {self.job.name}:", *tail(path), sep="\n", flush=True)
        return problem, path.read_text(errors="replace")


def run_job(run: Run, options: argparse.Namespace, results: table.Results) -> None:
    if run.job.is_elastic:
        results.add(run.measures[0], [kill(run, options)])
        return
    given: Dict[str, Any] = {
        "rounds": rounds(options),
        "seconds": SHARE_OF_ROUNDS * run.bound / len(run.measures),
        "port": free_ports(1)[0],
        "is_tiny": options.smoke,
        "on_host": bool(run.prepared.machine.stand_in),
    }
    words = ["benchmarks.cuda.worker", str(run.folder), ",".join(run.measures), json.dumps(given)]
    problem, _ = run.launch(*words, seconds=run.bound)
    for name in run.measures:
        found = [result for rank in range(run.job.ranks) if (result := result_of(run.folder / str(rank), name))]
        if len(found) < run.job.ranks:
            found = [{"problem": f"the job {problem}" if problem else "a rank has no result"}]
        results.add(name, found)


def result_of(path: Path, measure: str) -> Optional[Dict[str, Any]]:
    """That of a rank; None if it has not come so far."""
    lines = path.read_text().splitlines() if path.exists() else []
    results: List[Dict[str, Any]] = [json.loads(line) for line in lines]
    return next((result for result in results if result["measure"] == measure), None)


def kill(run: Run, options: argparse.Namespace) -> Dict[str, Any]:
    """Seconds from a worker's death to the others' next step, for some jobs one after the other."""
    steps, elements, kills = (5, 1000, 1) if options.smoke else (100, 1 << 20, KILLS)
    survivors = run.job.ranks - 1
    deadline = time.monotonic() + run.bound
    seconds: List[float] = []
    words = ("benchmarks.cuda.killed", str(run.job.ranks), str(steps), str(elements))
    while len(seconds) < kills and (not seconds or time.monotonic() + LEAST_SECONDS < deadline):
        problem, output = run.launch(*words, seconds=deadline - time.monotonic(), log=f"log.{len(seconds)}")
        changes, killed = changes_to(output, survivors), times(output, "KILL")
        if problem or len(changes) != survivors or len(killed) != 1:
            return {"problem": f"a job {problem or 'told no times of a change'}"}
        seconds.append((max(change.first for change in changes) - killed[0]) / 1e3)
    remark = "the ranks shared one GPU, as hosts of their own" if run.shares_gpus_by_nccl() else ""
    return {"figures": {"killed": seconds}, "remark": remark}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
