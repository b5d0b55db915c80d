"""`farandole report` divides the time of real jobs, and names the rank that is late."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Callable, Dict

import pytest
from launched import PRELUDE, Job, launch, needs_launcher
from test_launch_explain import dumps, farandole, folder_of, own_jobs

__all__ = ["dumps", "launch", "own_jobs"]  # the fixtures

pytestmark = needs_launcher

# The late rank begins to compute when the others are about to call: it is the last one also where other processes
# disturb them. Its arguments are the path of a named pipe and the seconds for which it computes.
LATE = """
import time
pipe = os.open(sys.argv[1], os.O_RDWR)
def compute(late):
    if hvd.rank() != late:
        os.write(pipe, b".")
        return
    others = hvd.size() - 1
    while others > 0:
        others -= len(os.read(pipe, others))
    time.sleep(float(sys.argv[2]))
"""

LATE_S = (0.2, 0.6, 1.8)
"""Seconds for which the late rank computes: at first few, then more, if other processes delay the job."""
SUMMANDS = ("outside", "blocked", "negotiation", "queue", "transfer")


@pytest.fixture
def pipe(tmp_path: Path) -> str:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return str(path)


def is_disturbed(facts: Dict[str, Any], late_s: float) -> bool:
    """Whether the rest of the steps took longer than the late rank has computed, because of other processes."""
    return max(facts["mean"]["step"], facts["median"]) > 2 * late_s


def check_sums(facts: Dict[str, Any]) -> None:
    for rank in facts["ranks"]:
        assert sum(rank[part] for part in SUMMANDS) == pytest.approx(rank["step"], rel=0.01)


def check_late(facts: Dict[str, Any], rank: int) -> None:
    """Only this rank is named, and the others wait for it for most of the step."""
    assert [(found["rank"], found["kind"]) for found in facts["stragglers"]] == [(rank, "late_at_call")]
    assert facts["stragglers"][0]["share"] > 0.5
    late = next(row for row in facts["ranks"] if row["rank"] == rank)
    for other in facts["ranks"]:
        if other is not late:
            assert other["blocked"] > late["blocked"] and other["outside"] < late["outside"]
            causes = {cause["rank"]: cause["call"] for cause in other["blocked_by"]}
            assert causes[rank] == max(causes.values())
    slowest = max(facts["median_path"]["segments"], key=lambda segment: segment["length"])
    assert (slowest["rank"], slowest["use"]) == (rank, "outside")


def test_a_late_rank_of_a_job_on_the_fast_path_is_named_from_its_dump(launch: Callable[..., Job], pipe: str) -> None:
    script = (
        PRELUDE.replace(
            "hvd.init()",
            "import farandole\ntry:\n    farandole.mark_step()\nexcept ValueError as early:\n"
            "    print('EARLY', early, flush=True)\nhvd.init()",
        )
        + LATE
        + "for step in range(13):\n"
        "    compute(1)\n"
        "    for name in ('a', 'b'):\n"
        "        hvd.allreduce(numpy.ones(4), name=name)\n"
        "    farandole.mark_step()\n"
        "sys.exit(3)\n"
    )
    for late_s in LATE_S:
        job = launch(2, script, pipe, str(late_s))
        folder = folder_of(job)
        facts: Dict[str, Any] = json.loads(farandole("report", "--json", str(folder)))
        if not is_disturbed(facts, late_s):
            break
    assert job.text.count("EARLY Farandole has not been initialized; call init() first") == 2, job.text
    text = farandole("report", str(folder))
    assert "A job of 2 ranks, generation 1: 12 steps, " in text
    assert "The program has marked its steps: the first one here is step 2." in text
    assert " is late at its calls: it spends more time outside the library than the other ranks." in text
    assert (facts["size"], facts["steps"], facts["marked"]) == (2, 12, True)
    check_sums(facts)
    check_late(facts, 1)

    # What is missing is said, and the rest is reported.
    (folder / "rank-1.events").write_bytes((folder / "rank-1.events").read_bytes()[:1000])
    text = farandole("report", str(folder), code=2)
    assert f"{folder}/rank-1.events is no complete event record: it has 1000 bytes" in text
    assert "There are no records of rank 1." in text


def test_a_late_rank_of_a_running_job_is_named_by_tensors_that_the_leader_schedules(
    launch: Callable[..., Job], pipe: str
) -> None:
    # Callers that do not wait at once leave large tensors to the lane.
    script = (
        PRELUDE
        + LATE
        + (
            "hvd.allreduce(numpy.ones(4), name='warm-up')\n"
            "tensors = [numpy.ones(1 << 18, numpy.float32) for _ in range(2)]\n"
            "for step in range(13):\n"
            "    compute(2)\n"
            "    handles = [hvd.allreduce_async(value, name=f'gradient.{i}') for i, value in enumerate(tensors)]\n"
            "    for handle in handles:\n"
            "        hvd.synchronize(handle)\n"
            "print('STEPPED', flush=True)\n"
            "signal.pause()\n"
        )
    )
    for late_s in LATE_S:
        job = launch(3, script, pipe, str(late_s))
        job.read_until(lambda text: text.count("STEPPED") >= 3)
        name = f"script-{job.process.pid}"  # other jobs may run on this machine
        text = farandole("report", name)
        facts: Dict[str, Any] = json.loads(farandole("report", "--json", name))
        job.kill()
        if not is_disturbed(facts, late_s):
            break
    assert "each begins with the call for allreduce.gradient.0.\n" in text
    assert (facts["size"], facts["steps"], facts["marked"]) == (3, 12, False)
    check_sums(facts)
    check_late(facts, 2)
    assert facts["mean"]["transfer"] > 0 and facts["mean"]["negotiation"] > 0


def test_words_and_records_without_steps_are_refused(launch: Callable[..., Job], tmp_path: Path) -> None:
    assert "--jsn" in farandole("report", "--jsn", code=2)
    assert "there is no job unknown-1" in farandole("report", "unknown-1", code=2)
    assert "has no event records (files *.events and *.trace)" in farandole("report", str(tmp_path), code=2)
    help_text = farandole("report", "--help")
    assert "farandole.mark_step()" in help_text and "a running job, a folder or files" in help_text
    folder = folder_of(launch(1, PRELUDE + "hvd.allreduce(numpy.ones(4), name='a')\nsys.exit(4)"))
    assert "there are no steps to report: no names of tensors recur regularly" in farandole(
        "report", str(folder), code=2
    )
