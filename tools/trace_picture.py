#!/usr/bin/env python3
"""Makes docs/guides/tracing.png: a trace of two ranks, of which rank 1 is late, in Perfetto's user interface.

It trains for a few steps under torch.profiler, merges the records of the running job with what the profiler wrote, and
shows two steps. It needs what `tools/setup --launch` installs. `trace_picture.py FILE` writes another file.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import List

import perfetto_ui

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "guides" / "tracing.png"
LAUNCHER = os.environ.get("FARANDOLE_LAUNCHER") or str(Path(sys.executable).with_name("horovodrun"))
LIMIT_BYTES = 150 * 1024

TRAINING = """
import subprocess, sys, time
import torch, farandole, farandole.torch as hvd
hvd.init()
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512))
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.01), named_parameters=model.named_parameters()
)
def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        if hvd.rank() == 1:
            time.sleep(0.004)
        model(torch.ones(64, 512)).sum().backward()
        optimizer.step()
        farandole.mark_step()
train(20)
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
    train(5)
profiler.export_chrome_trace(f"{sys.argv[1]}/torch-{hvd.rank()}.json")
hvd.barrier()
if hvd.rank() == 0:
    words = ["trace", "merge", "--output", sys.argv[1] + "/trace.json", "--profiler", sys.argv[1]]
    subprocess.run([sys.argv[2], *words], check=True)
hvd.barrier()
"""


def make_trace(folder: Path) -> Path:
    (folder / "train.py").write_text(TRAINING)
    (folder / "run").mkdir(mode=0o700)
    farandole = str(Path(LAUNCHER).with_name("farandole"))
    subprocess.run(
        [LAUNCHER, "-np", "2", sys.executable, str(folder / "train.py"), str(folder), farandole],
        check=True,
        env={**os.environ, "XDG_RUNTIME_DIR": str(folder / "run"), "TMPDIR": str(folder / "run")},
    )
    return folder / "trace.json"


def main(arguments: List[str]) -> int:
    picture = Path(arguments[0]) if arguments else PICTURE
    if reason := perfetto_ui.why_not():
        print(f"trace_picture: {reason}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as name, perfetto_ui.PerfettoUi(make_trace(Path(name)), 1280, 1090) as ui:
        # Two steps of rank 0 that the profiler saw, and a little of what comes before and after.
        steps = ui.query(
            "select slice.ts, slice.dur from slice join thread_track on slice.track_id = thread_track.id"
            " join thread using (utid) join process using (upid)"
            " where slice.name in ('step 23', 'step 24') and process.name glob 'rank 0 *' order by slice.ts"
        )
        begin, end = int(steps[0][0]), int(steps[-1][0]) + int(steps[-1][1])
        margin = (end - begin) // 20
        ui.show(begin - margin, end + margin)
        for command in ("ToggleLeftSidebar", "ExpandAllGroups"):
            ui.run(f"app.commands.runCommand('dev.perfetto.{command}')")
        ui.run("return waitForPerfettoIdle().then(() => '')")
        ui.save_picture(picture)
    size = picture.stat().st_size
    print(f"{picture}: {size} bytes")
    return 0 if size <= LIMIT_BYTES else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
