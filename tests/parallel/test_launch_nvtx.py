"""Ranges for NVIDIA's profilers: a tool that NVTX loads in the place of a profiler counts them by name and bytes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
from launched import FARANDOLE, clean_environment, needs_launcher, run_script

TOOL = Path(__file__).resolve().parent.parent.parent / "actors" / "submission" / "nvtx_tool_testing.c"

pytestmark = [needs_launcher, pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")]

OPERATIONS = """
import ctypes, os
import numpy, farandole.numpy as hvd

tool = ctypes.CDLL(os.environ["NVTX_INJECTION64_PATH"])
tool.nvtx_tool_report.argtypes = [ctypes.c_char_p, ctypes.c_size_t]

def counts():
    # The numbers of ranges that began and ended, and the sum of their bytes, by domain and name.
    text = ctypes.create_string_buffer(1 << 14)
    tool.nvtx_tool_report(text, len(text))
    rows = [line.split() for line in text.value.decode().splitlines()]
    return {(domain, name): tuple(map(int, numbers)) for domain, name, *numbers in rows}

def ones(rows):
    return numpy.ones(rows)  # 8 bytes each

def run_operations():
    for _ in range(8):
        hvd.allreduce(ones(4), name="recurring")
    hvd.grouped_allreduce([ones(2), ones(6)], name="group")
    hvd.allgather(ones(1 + hvd.rank()))
    hvd.grouped_allgather([ones(2), ones(3)])
    hvd.broadcast(ones(3), 0)
    hvd.alltoall(ones(2))
    hvd.reducescatter(ones(4))
    hvd.grouped_reducescatter([ones(4), ones(2)])
    hvd.barrier()
    hvd.join()
"""

COUNTED = (
    OPERATIONS
    + """
hvd.init()
run_operations()
counted = counts()
calls = {name: row for (domain, name), row in counted.items() if domain == "HorovodTimeline"}
assert calls == {
    "HorovodAllreduce": (8, 8, 256),
    "HorovodGroupedAllreduce": (1, 1, 64),
    "HorovodAllgather": (1, 1, 8 + 8 * hvd.rank()),
    "HorovodGroupedAllgather": (1, 1, 40),
    "HorovodBroadcast": (1, 1, 24),
    "HorovodAlltoall": (1, 1, 16),
    "HorovodReducescatter": (1, 1, 32),
    "HorovodGroupedReducescatter": (1, 1, 48),
}, calls
activities = {name: row for (domain, name), row in counted.items() if domain == "HorovodTimelineActivities"}
assert len(calls) + len(activities) == len(counted), counted
assert {"LOCAL_ALLREDUCE", "LOCAL_ALLGATHER", "LOCAL_BCAST", "LOCAL_ALLTOALL", "LOCAL_REDUCESCATTER",
        "FAST_PATH_ALLREDUCE"} <= set(activities), activities
assert all(begun == ended for begun, ended, _ in activities.values()), activities
allreduced = activities["LOCAL_ALLREDUCE"][2] + activities["FAST_PATH_ALLREDUCE"][2]
assert allreduced == 256 + 64, activities
print("COUNTED", flush=True)
hvd.shutdown()

os.environ["HOROVOD_DISABLE_NVTX_RANGES"] = "1"
hvd.init()
run_operations()
assert counts() == counted, counts()
print("DISABLED", flush=True)
"""
)


def include_folder() -> str:
    """The folder of NVTX's headers. Skips the test where the build or this machine has none."""
    settings = subprocess.run(
        [FARANDOLE, "settings"], check=True, env=clean_environment(), capture_output=True, text=True
    )
    (row,) = (line for line in settings.stdout.splitlines() if "HOROVOD_DISABLE_NVTX_RANGES" in line)
    if row.endswith("no effect in this build"):
        pytest.skip("this build has no NVTX")
    packages = sysconfig.get_path("purelib")
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    roots += [f"{packages}/nvidia/nvtx", f"{packages}/nvidia/cu13"]
    for root in filter(None, roots):
        if Path(root, "include", "nvtx3", "nvToolsExt.h").exists():
            return f"{root}/include"
    pytest.skip("this machine has no headers of NVTX")


def test_a_profiler_sees_each_call_and_activity_unless_ranges_are_disabled(tmp_path: Path) -> None:
    library = tmp_path / "libnvtx_tool.so"
    command = [
        "cc",
        "-std=gnu11",
        "-shared",
        "-fPIC",
        f"-I{include_folder()}",
        "-o",
        str(library),
        str(TOOL),
        "-lpthread",
    ]
    subprocess.run(command, check=True)
    job = run_script(2, tmp_path, COUNTED, NVTX_INJECTION64_PATH=str(library))
    assert job.returncode == 0, job.stdout
    assert job.stdout.count("COUNTED") == job.stdout.count("DISABLED") == 2, job.stdout
