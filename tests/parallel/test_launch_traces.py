"""`farandole trace start` and `stop`, and FARANDOLE_TRACE: all events of a job, also those that its record has lost."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Callable, List

from launched import (
    DEADLINE_S,
    FARANDOLE,
    PRELUDE,
    Job,
    clean_environment,
    launch,
    needs_launcher,
    wait_until,
    write_script,
)
from test_launch_explain import dumps, farandole, own_jobs

__all__ = ["dumps", "launch", "own_jobs"]  # the fixtures

pytestmark = needs_launcher

# Makes steps until the file exists on rank 0, which tells the others.
STEPS = (
    PRELUDE
    + """
import os, time, farandole
ended = False
while not ended:
    for name in ("a", "b"):
        hvd.allreduce(numpy.ones(4), name=name)
    ended = hvd.allreduce(numpy.array([float(os.path.exists(sys.argv[1]))]), name="end", op=hvd.Sum)[0] > 0
    farandole.mark_step()
    time.sleep(0.002)
"""
)


def names_in(folder: Path) -> List[str]:
    return sorted(each.name for each in folder.iterdir())


def marked_steps(trace: Path) -> List[int]:
    """The steps that the merged trace shows on rank 0."""
    events = json.loads(trace.read_text())["traceEvents"]
    steps = [re.fullmatch(r"step (\d+)", event["name"]) for event in events if event["ph"] == "X" and event["pid"] == 0]
    return [int(step.group(1)) for step in steps if step]


def endless_trace() -> subprocess.Popen[str]:
    """A command that traces the job here for more steps than it takes, unless it is traced already."""
    return subprocess.Popen(
        [FARANDOLE, "trace", "start", "--steps", "1000000"],
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def merged_steps(folder: Path, merged: Path) -> List[int]:
    """The steps in the trace that a running job has written so far; none while it cannot be read yet."""
    text = farandole("trace", "merge", "--output", str(merged), str(folder), code=None)
    return marked_steps(merged) if "of 2 ranks" in text else []


def traced_job(jobs: List[Job], folder: Path, script: str, *arguments: str, **settings: str) -> Job:
    """A job of 2 ranks that write their traces into this folder."""
    environment = {**clean_environment(), "FARANDOLE_TRACE": str(folder), **settings}
    command = ["-np", "2", sys.executable, write_script(folder.parent, script), *arguments]
    jobs.append(Job(command, environment))
    return jobs[-1]


def test_a_running_job_is_traced_for_a_number_of_steps_and_until_stop(
    launch: Callable[..., Job], tmp_path: Path, dumps: Path
) -> None:
    end = tmp_path / "end"
    job = launch(2, STEPS, str(end))
    job.pids(2)
    assert "is not traced: farandole trace start begins a trace" in farandole("trace", "stop", code=1)

    first, merged = tmp_path / "first", tmp_path / "trace.json"
    text = farandole("trace", "start", "--steps", "20", "--output", str(first))
    assert re.match(rf"{first}: \d+ events of 2 ranks\nfarandole trace merge --output trace\.json {first}\n", text), (
        text
    )
    assert names_in(first) == ["rank-0.trace", "rank-1.trace"]
    farandole("trace", "merge", "--output", str(merged), str(first))
    steps = marked_steps(merged)
    assert len(steps) == 20 and steps == list(range(steps[0], steps[0] + 20)), steps
    assert "A job of 2 ranks" in farandole("report", str(first))

    assert "is traced; farandole trace stop writes the trace\n" in farandole("trace", "start")
    assert "is traced already: farandole trace stop ends that trace" in farandole("trace", "start", code=1)
    facts = json.loads(farandole("trace", "stop", "--json"))
    assert facts["files"] == 2 and facts["missing"] == [] and Path(facts["folder"]).parent == dumps

    # A trace that runs when the job ends is written as well, and whoever waits for its steps is told.
    # Of two commands, the launcher refuses the later one: then the other one waits.
    both = [endless_trace(), endless_trace()]
    wait_until(lambda: any(each.poll() is not None for each in both), "one of two traces is refused")
    refused, waiting = sorted(both, key=lambda each: each.poll() is None)
    assert "is traced already" in refused.communicate(timeout=DEADLINE_S)[0]
    end.touch()
    assert job.end() == 0, job.text
    told = re.search(
        r"^farandole: the trace of the job: farandole trace merge --output trace\.json (\S+)$", job.text, re.M
    )
    assert told and names_in(Path(told.group(1))) == ["rank-0.trace", "rank-1.trace"], job.text
    answer = waiting.communicate(timeout=DEADLINE_S)[0]
    assert waiting.returncode == 1 and "it ends before so many steps have passed" in answer, answer


def test_bad_words_are_refused() -> None:
    assert "--output and --json need --steps" in farandole("trace", "start", "--json", code=2)
    assert "--max-mib" in farandole("trace", "start", "--max-mib", "0", code=2)
    assert "no job" in farandole("trace", "stop", code=2).lower()


def test_each_rank_writes_all_of_its_events_into_the_folder_of_the_setting(jobs: List[Job], tmp_path: Path) -> None:
    folder, merged, end = tmp_path / "traces", tmp_path / "trace.json", tmp_path / "end"
    folder.mkdir()
    job = traced_job(jobs, folder, STEPS, str(end), FARANDOLE_RECORDER_EVENTS="64")
    # The record itself would have only the last few steps. A gap, on a busy machine, may hide some.
    wait_until(lambda: len(merged_steps(folder, merged)) > 20, "the trace has more steps than the record")
    end.touch()
    assert job.end() == 0, job.text
    assert names_in(folder) == ["rank-0.trace", "rank-1.trace"]
    farandole("trace", "merge", "--output", str(merged), str(folder))
    assert len(marked_steps(merged)) > 20

    missing = traced_job(jobs, tmp_path / "none", PRELUDE)
    assert missing.end() == 0
    assert "must name an existing folder that this process may write to" in missing.text


def test_the_trace_of_a_killed_process_can_be_read(jobs: List[Job], tmp_path: Path) -> None:
    folder, merged = tmp_path / "traces", tmp_path / "trace.json"
    folder.mkdir()
    job = traced_job(jobs, folder, STEPS, str(tmp_path / "never"))
    pids = job.pids(2)
    wait_until(lambda: merged_steps(folder, merged) != [], "both ranks write a trace")
    os.kill(pids[0], signal.SIGKILL)
    assert job.end() != 0
    assert f"process-{pids[0]}.events" in names_in(folder)
    farandole("trace", "merge", "--output", str(merged), str(folder))
    events = json.loads(merged.read_text())["traceEvents"]
    assert {event["pid"] for event in events} == {0, 1}
