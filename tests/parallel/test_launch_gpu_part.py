"""`tools/test gpu` itself, on the stand-in driver with few steps, and without a GPU; `tools/bench cuda` without one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Tuple

import pytest
from device_arrays import driver, needs_stand_in

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 500.0
LIBRARY = driver._name

pytestmark = needs_stand_in


def run_gpu_part(*options: str, **settings: str) -> Tuple[int, str]:
    """The exit status and the output."""
    return run_tool("test", "gpu", "--python", sys.executable, *options, **settings)


def run_tool(*words: str, **settings: str) -> Tuple[int, str]:
    ran = subprocess.run(
        [ROOT / "tools" / words[0], *words[1:]],
        env={**os.environ, "STAND_IN_DRIVER": LIBRARY, **settings},
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_S,
    )
    return ran.returncode, ran.stdout


@pytest.mark.slow
def test_a_run_on_the_stand_in_driver_ends_with_a_table_that_says_so(tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    status, output = run_gpu_part("--only", "gpu,jobs", "--ranks", "2", "--report", str(report))
    assert status == 0, output
    text = report.read_text()
    assert output.endswith(text)
    assert text.strip().startswith("STAND-IN DRIVER: no GPU took part in these tests")
    rows = [line.split() for line in text.splitlines() if line.startswith(("gpu  ", "jobs  "))]
    assert [row[:2] for row in rows] == [["gpu", "2"], ["jobs", "1"]]
    assert all(int(row[2]) > 0 and row[3:5] == ["0", "0"] for row in rows), text
    for expected in (
        "  devices on 2 ranks: it was not asked for (--only)\n",
        "  GPU: Stand-in GPU 0, ",
        f"  CUDA: driver for CUDA 13.0: {LIBRARY}\n",
        "  path of GPU tensors: tensors in GPU memory ",
        "gpu: passed. STAND-IN DRIVER: ",
    ):
        assert expected in text


@pytest.mark.slow
def test_a_failure_of_a_test_fails_the_run_and_its_output_is_shown() -> None:
    status, output = run_gpu_part("--only", "gpu", "--ranks", "1", FARANDOLE_FAKE_CUDA_FAILS="cuMemAlloc")
    assert status == 1, output
    assert "gpu: the end of the output of gpu on 1 ranks:" in output
    reason = r"AssertionError: cuMemAlloc_v2 failed with CUDA's error 2$"
    assert re.search(rf"^  gpu on 1: \S*::test_a_large_tensor_\w+ on rank 0: {reason}", output, re.MULTILINE), output
    assert "gpu: FAILED" in output


def test_a_driver_without_gpus_fails_the_run() -> None:
    status, output = run_gpu_part(FARANDOLE_FAKE_GPUS="0")
    assert status == 1
    assert f"gpu: FAILED: no test has run: the NVIDIA driver {LIBRARY} finds no GPU" in output


def test_a_driver_without_gpus_fails_the_benchmark() -> None:
    status, output = run_tool("bench", "cuda", "--smoke", "--python", sys.executable, FARANDOLE_FAKE_GPUS="0")
    assert status == 1
    assert f"bench: FAILED: nothing was measured: the NVIDIA driver {LIBRARY} finds no GPU" in output


def has_driver() -> bool:
    """Whether a new process finds a driver; this process has loaded the stand-in by the same name."""
    program = "import ctypes; ctypes.CDLL('libcuda.so.1')"
    return subprocess.run([sys.executable, "-c", program], check=False, stderr=subprocess.DEVNULL).returncode == 0


def test_a_machine_without_a_driver_fails_the_run() -> None:
    if has_driver():
        pytest.skip("this machine has a driver")
    status, output = run_gpu_part(STAND_IN_DRIVER="")
    assert status == 1
    assert output.startswith("gpu: FAILED: no test has run: there is no NVIDIA driver (libcuda.so.1: "), output
