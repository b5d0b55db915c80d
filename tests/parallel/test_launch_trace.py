"""The merged trace of a real job, with what torch.profiler has recorded, and as Perfetto's user interface shows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import perfetto_ui
import pytest
from launched import Job, launch, needs_launcher
from test_launch_explain import dumps, farandole, folder_of, own_jobs

__all__ = ["dumps", "launch", "own_jobs"]  # the fixtures

pytestmark = needs_launcher

# One file is compressed. The job fails, so that the launcher keeps the records.
PROFILED = """
import sys
import torch, farandole.torch as hvd
hvd.init()
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
    for step in range(2):
        hvd.allreduce(torch.ones(3), name="gradient")
profiler.export_chrome_trace(sys.argv[1] + f"/torch-{hvd.rank()}.json" + (".gz" if hvd.rank() == 1 else ""))
hvd.barrier()
sys.exit(3)
"""


def slices(trace: Dict[str, Any], process: int) -> Iterator[Dict[str, Any]]:
    return (event for event in trace["traceEvents"] if event["ph"] == "X" and event["pid"] == process)


def threads(trace: Dict[str, Any], process: int) -> List[str]:
    return [
        event["args"]["name"]
        for event in trace["traceEvents"]
        if event.get("name") == "thread_name" and event["pid"] == process
    ]


@pytest.fixture
def merged(launch: Callable[..., Job], tmp_path: Path) -> Path:
    """The trace of a job of two ranks with what torch.profiler has recorded."""
    logs = tmp_path / "logs"
    logs.mkdir()
    folder = folder_of(launch(2, PROFILED, str(logs)))
    (logs / "notes.json").write_text("garbage")
    path = tmp_path / "trace.json"
    text = farandole("trace", "merge", "--output", str(path), "--profiler", str(logs), str(folder), code=2)
    assert f"{logs}/notes.json is left out: it is no JSON at byte 1" in text
    assert " of 2 traces of other profilers\n" in text
    return path


def test_a_merged_trace_has_the_events_of_torch_profiler(merged: Path) -> None:
    trace = json.loads(merged.read_text())
    for rank in range(2):
        assert [name for name in threads(trace, rank) if name.startswith("torch.profiler: thread ")]
        # What the library recorded of each call lies within the range that torch.profiler has of it.
        ranges = [event for event in slices(trace, rank) if event["name"] == "horovod:allreduce"]
        calls = [event for event in slices(trace, rank) if event["name"] == "submit allreduce.gradient"]
        assert len(ranges) == 2 and calls
        for call in calls:
            assert [each for each in ranges if each["ts"] <= call["ts"] <= each["ts"] + each["dur"]], (call, ranges)


@pytest.mark.slow
@pytest.mark.skipif(perfetto_ui.why_not() != "", reason=perfetto_ui.why_not() or "")
def test_a_merged_trace_opens_in_perfetto(merged: Path) -> None:
    with perfetto_ui.PerfettoUi(merged) as ui:
        assert ui.import_problems() == []
        shown = ui.query(
            "select distinct process.name || ': ' || thread.name from slice"
            " join thread_track on slice.track_id = thread_track.id join thread using (utid) join process using (upid)"
        )
        page = ui.text()
    for rank in range(2):
        names = [name for (name,) in shown if name.startswith(f"rank {rank} on ")]
        for thread in ("python", "fd-loop", "fd-lane", "torch.profiler"):
            assert [name for name in names if f": {thread}" in name], shown
        assert f"\nrank {rank} on " in page, page
