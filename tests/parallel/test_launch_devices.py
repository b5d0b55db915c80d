"""Jobs whose tensors are in GPU memory and move through the host: the driver fails, a stream makes no progress. The
stand-in driver alone can do so. tests/gpu has the jobs that run with any driver, test_launch_nccl.py those with NCCL.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from device_arrays import needs_stand_in
from device_jobs import PRELUDE
from launched import needs_launcher, run_script

pytestmark = [needs_launcher, needs_stand_in]

FAILING = (
    PRELUDE
    + """
hvd.init()
if hvd.rank() == 1:
    os.environ["FARANDOLE_FAKE_CUDA_FAILS"] = sys.argv[1] if len(sys.argv) > 1 else os.environ["FAILS"]
stream = Stream()
with stream:
    array = DeviceArray(numpy.full(100, 1.0, "float32"))
    try:
        summed("first", array)
    except hvd.HorovodInternalError as problem:
        print(f"rank {hvd.rank()} got: {problem}", flush=True)
    else:
        print("went well", flush=True)
"""
)


def got(text: str, rank: int) -> str:
    found = re.search(rf"rank {rank} got: (.*)", text)
    assert found, text
    return found.group(1)


def test_a_failure_of_the_driver_is_told_on_its_rank_and_the_others_learn_of_it(tmp_path: Path) -> None:
    job = run_script(2, tmp_path, FAILING, FAILS="cuMemHostAlloc", FARANDOLE_GPU_PATH="staged")
    assert "GPU 1: cuMemHostAlloc failed: CUDA_ERROR_OUT_OF_MEMORY" in got(job.stdout, 1)
    assert "rank 1" in got(job.stdout, 0)


@pytest.mark.slow
def test_a_copy_that_the_driver_refuses_fails_the_operation(tmp_path: Path) -> None:
    job = run_script(2, tmp_path, FAILING, FAILS="cuMemcpyAsync", FARANDOLE_GPU_PATH="staged")
    assert "GPU 1: cuMemcpyAsync failed: CUDA_ERROR_UNKNOWN" in got(job.stdout, 1)
    assert "rank 1" in got(job.stdout, 0)


STUCK = (
    PRELUDE
    + """
hvd.init()
stream = Stream()
with stream:
    array = DeviceArray(numpy.full(100, 1.0, "float32"))
    if hvd.rank() == 1:
        os.environ["FARANDOLE_FAKE_CUDA_STUCK"] = "1"
    try:
        job.runtime.submit(SUM, "late", array, array, 0).wait()
    except hvd.HorovodInternalError as problem:
        print(f"rank {hvd.rank()} got: {problem}", flush=True)
os._exit(0)  # the GPU of rank 1 never ends, and the stand-in waits for it at exit
"""
)


@pytest.mark.slow
def test_a_gpu_that_makes_no_progress_fails_the_operation_on_all_ranks(tmp_path: Path) -> None:
    job = run_script(2, tmp_path, STUCK, HOROVOD_GLOO_TIMEOUT_SECONDS="8", FARANDOLE_GPU_PATH="staged")
    assert "operation timeout" in got(job.stdout, 0)
    assert got(job.stdout, 1)
