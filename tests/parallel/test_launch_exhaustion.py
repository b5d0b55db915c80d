"""Processes and hosts that run out of a resource: the job works, or a rank reports the missing resource."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest
from launched import DEADLINE_S, LAUNCHER, needs_launcher, run_script, write_script

pytestmark = needs_launcher

# Rank 1 lowers one of its limits to slightly more than it uses, and then runs operations with rank 0.
LIMITED = """
import os, resource, sys
import numpy, farandole.numpy as hvd

limit, spare, when = "{limit}", {spare}, "{when}"

def lower():
    if os.environ["HOROVOD_RANK"] != "1":
        return
    if limit == "NOFILE":
        used = len(os.listdir("/proc/self/fd"))
    else:
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(getattr(resource, "RLIMIT_" + limit), (used + spare, used + spare))

try:
    part = numpy.ones(8 << 20)
    if when == "before init":
        lower()
    hvd.init()
    assert (hvd.allreduce(numpy.ones(1 << 16), op=hvd.Sum, name="sum") == 2).all()
    if when == "after init":
        lower()
        gathered = hvd.allgather(part, name="gathered")
        assert gathered.shape == (16 << 20,) and (gathered == 1).all()
    print(f"RIGHT {{os.environ['HOROVOD_RANK']}}", flush=True)
except Exception as end:
    print(f"TOLD {{os.environ['HOROVOD_RANK']}} {{type(end).__name__}}: {{end}}", flush=True)
    sys.exit(3)
"""


def lines(text: str, word: str) -> List[str]:
    return re.findall(rf"{word} .*", text)


def works(job: subprocess.CompletedProcess[str], shortage: str) -> bool:
    """Whether the job worked. If not, rank 1 has named the shortage, and the error of rank 0 names rank 1."""
    if job.returncode == 0:
        assert sorted(lines(job.stdout, "RIGHT")) == ["RIGHT 0", "RIGHT 1"], job.stdout
        return True
    assert "killed by signal" not in job.stdout, job.stdout
    told = {line.split()[1]: line for line in lines(job.stdout, "TOLD")}
    assert re.search(shortage, told["1"]), job.stdout
    assert re.search(r"(rank|slot) 1\b", told.get("0", "rank 1")), job.stdout
    return False


def outcomes(tmp_path: Path, limit: str, when: str, spares: List[int], shortage: str) -> List[bool]:
    scripts = [LIMITED.format(limit=limit, spare=spare, when=when) for spare in spares]
    return [works(run_script(2, tmp_path, script, survivors_report=True), shortage) for script in scripts]


@pytest.mark.slow
def test_too_few_descriptors_are_reported_by_init(tmp_path: Path) -> None:
    worked = outcomes(tmp_path, "NOFILE", "before init", [0, 3, 6, 7, 8, 40], "Too many open files")
    assert not worked[0]
    assert worked[-1]


def test_too_little_address_space_is_reported_by_init(tmp_path: Path) -> None:
    spares = [mebibytes << 20 for mebibytes in (1, 16, 32, 64, 512)]
    worked = outcomes(tmp_path, "AS", "before init", spares, "too little memory|Cannot allocate memory|system_error")
    assert not worked[0]
    assert worked[-1]


def test_no_memory_for_a_result_fails_the_operation_on_every_rank(tmp_path: Path) -> None:
    spares = [mebibytes << 20 for mebibytes in (16, 1024)]
    shortage = "no memory for the 134217728 bytes that allgather brings"
    assert outcomes(tmp_path, "AS", "after init", spares, shortage) == [False, True]


def can_mount() -> bool:
    tried = subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], check=False, capture_output=True, timeout=DEADLINE_S
    )
    return tried.returncode == 0


TALKATIVE = """
import numpy, farandole.numpy as hvd
hvd.init()
print("x" * 200000)
total = hvd.allreduce(numpy.ones(4), op=hvd.Sum, name="sum")
print(f"TOTAL {total[0]:.0f}", flush=True)
"""


@pytest.mark.skipif(not can_mount(), reason="file systems cannot be mounted here")
@pytest.mark.parametrize("full", ["output", "shared memory"])
def test_a_job_continues_when_a_disk_is_full(tmp_path: Path, full: str) -> None:
    disk = tmp_path / "disk" if full == "output" else Path("/dev/shm")
    disk.mkdir(exist_ok=True)
    kept = ["--output-filename", str(disk / "output")] if full == "output" else []
    mounted = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=16k none "$0" && exec "$@"', str(disk)]
    job = subprocess.run(
        [*mounted, LAUNCHER, "-np", "2", *kept, sys.executable, write_script(tmp_path, TALKATIVE)],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_S,
        start_new_session=True,
    )
    assert job.returncode == 0, job.stdout[-2000:]
    assert len(re.findall("TOTAL 2$", job.stdout, re.M)) == 2, job.stdout[-2000:]
    if full == "output":
        assert "output is lost from here on: No space left on device" in job.stdout
