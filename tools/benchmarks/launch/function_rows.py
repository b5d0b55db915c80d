"""Functions that one Python process runs on workers: jobs of their own, and workers that stay between calls."""

from __future__ import annotations

import contextlib
import sys
from functools import partial
from pathlib import Path
from typing import Iterator, Sequence

from namespaces import FARANDOLE

from benchmarks.launch.measurement import OURS, Options, Row, Target, output_of, seconds_of

RANKS = 4
SCRIPT = "horovodrun of the same as a script"
RAY = "Ray actors"

TRAIN = """
def train():
    import farandole.numpy as hvd
    hvd.init()
    return hvd.rank()
"""

CALLS_FUNCTION = f"""
import time
import horovod
{TRAIN}
begin = time.perf_counter()
ranks = horovod.run(train, num_proc={RANKS})
print(time.perf_counter() - begin)
assert ranks == list(range({RANKS})), ranks
"""

# Each prints the median over its calls.
MEDIAN = """
import statistics, time
def nothing():
    pass
def median_of(call):
    taken = []
    for number in range({calls}):
        begin = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begin)
    print(statistics.median(taken))
"""

SESSION = f"""
import farandole
with farandole.session({RANKS}) as workers:
    median_of(lambda: workers.run(nothing))
"""

RAY_ACTORS = f"""
import ray
ray.init(num_cpus={RANKS}, include_dashboard=False, log_to_driver=False)
@ray.remote(num_cpus=1)
class Worker:
    def run(self):
        nothing()
workers = [Worker.remote() for _ in range({RANKS})]
median_of(lambda: ray.get([worker.run.remote() for worker in workers]))
ray.shutdown()
"""


def _seconds_printed(command: Sequence[str]) -> float:
    """The number that a command prints last."""
    return float(output_of(command).split()[-1])


def _script(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


@contextlib.contextmanager
def function_against_script(options: Options, folder: Path) -> Iterator[Row]:
    """The import of horovod and the start of the calling interpreter do not count: a caller has them already."""
    calls = _script(folder, "calls.py", CALLS_FUNCTION)
    same = _script(folder, "same.py", TRAIN + "train()\n")
    yield Row(
        f"`horovod.run(f, num_proc={RANKS})`",
        {
            OURS: partial(_seconds_printed, [sys.executable, calls]),
            SCRIPT: partial(seconds_of, [FARANDOLE, "run", "-np", str(RANKS), sys.executable, same]),
        },
        [Target(SCRIPT, 1.0, allowance_ms=150)],
    )


@contextlib.contextmanager
def empty_call(options: Options, folder: Path) -> Iterator[Row]:
    measured = MEDIAN.format(calls=20 if options.smoke else 300)
    contenders = {OURS: partial(_seconds_printed, [sys.executable, _script(folder, "session.py", measured + SESSION)])}
    targets = []
    if options.ray_python:
        actors = _script(folder, "actors.py", measured + RAY_ACTORS)
        contenders[RAY] = partial(_seconds_printed, [options.ray_python, actors])
        targets.append(Target(RAY, 0.5))
    yield Row(f"`session.run` of an empty function, {RANKS} workers", contenders, targets, limit_ms=2)
