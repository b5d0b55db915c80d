"""Jobs whose tensors move by NCCL, and by the host where NCCL cannot be used; lost ranks; a GPU that does not respond.
The stand-ins for the driver and for NCCL alone can do so.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from device_arrays import needs_stand_in
from device_jobs import PRELUDE
from launched import needs_launcher, run_script

pytestmark = [needs_launcher, needs_stand_in]

SUMS = (
    PRELUDE
    + """
from device_arrays import nccl
if os.environ["HOROVOD_RANK"] == "1" and "ON_RANK_1" in os.environ:
    variable, value = os.environ["ON_RANK_1"].split("=")
    os.environ[variable] = value
hvd.init()
stream = Stream()
try:
    with stream:
        array = DeviceArray(numpy.full(100, 1.0, "float32"))
        for _ in range(3):
            array.write(numpy.full(100, 1.0, "float32"))
            assert (summed("a", array) == hvd.size()).all()
except hvd.HorovodInternalError as problem:
    print(f"rank {hvd.rank()} got: {problem}", flush=True)
else:
    print(f"rank {hvd.rank()}: kernels {nccl.fakeNcclKernelsLaunched()} misuses {nccl.fakeNcclMisuses()}", flush=True)
"""
)


def run_sums(np: int, folder: Path, on_rank_1: str = "", **environment: str) -> Any:
    if on_rank_1:
        environment["ON_RANK_1"] = on_rank_1
    return run_script(np, folder, SUMS, FARANDOLE_FAKE_GPUS="4", **environment)


def kernels(text: str) -> list[int]:
    assert "misuses 0" in text, text
    return [int(each) for each in re.findall(r"kernels (\d+)", text)]


def test_each_rank_with_a_gpu_of_its_own_uses_nccl(tmp_path: Path) -> None:
    job = run_sums(3, tmp_path)
    assert kernels(job.stdout) == [3, 3, 3]
    assert "through host memory" not in job.stdout


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("FARANDOLE_FAKE_NCCL=0", r"rank 1 on \S+: there is no NCCL \(\S+/libnccl.so.2: it does not report a version"),
        pytest.param(
            "FARANDOLE_FAKE_NCCL=21700",
            r"rank 1 on \S+: there is no NCCL \(NCCL 2.17.0 \(.*\) is too old",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "FARANDOLE_FAKE_NCCL=22703",
            r"rank 0 on \S+ has NCCL 2.28.9, and rank 1 on \S+ has NCCL 2.27.3",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "FARANDOLE_FAKE_NCCL_FAILS=ncclCommInitRankConfig",
            r"rank 1 on \S+: ncclCommInitRankConfig failed",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "FARANDOLE_FAKE_CUDA_FAILS=cuModuleLoadData",
            r"rank 1 on \S+: GPU 1: cuModuleLoadData failed",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "FARANDOLE_FAKE_CUDA_FAILS=cuMemAlloc:2", r"rank 1 on \S+: GPU 1: cuMemAlloc failed", marks=pytest.mark.slow
        ),
    ],
    ids=["none", "too old", "other version", "init", "kernels", "buffer"],
)
def test_one_rank_without_nccl_makes_all_use_the_host_and_the_log_says_why(
    tmp_path: Path, fault: str, reason: str
) -> None:
    job = run_sums(2, tmp_path, fault)
    assert kernels(job.stdout) == [0, 0]
    lines = [line for line in job.stdout.splitlines() if "through host memory" in line]
    assert len(lines) == 1 and re.search(reason, lines[0]), job.stdout


@pytest.mark.slow
def test_ranks_that_share_a_gpu_use_the_host(tmp_path: Path) -> None:
    job = run_script(2, tmp_path, SUMS, FARANDOLE_FAKE_GPUS="1")
    assert kernels(job.stdout) == [0, 0]
    assert re.search(r"rank 0 on \S+ and rank 1 on \S+ use the same GPU", job.stdout)


def test_a_forced_nccl_fails_where_it_cannot_be_used(tmp_path: Path) -> None:
    job = run_sums(2, tmp_path, "FARANDOLE_FAKE_NCCL=0", FARANDOLE_GPU_PATH="nccl")
    for rank in range(2):
        assert re.search(rf"rank {rank} got: .*FARANDOLE_GPU_PATH=nccl, and NCCL cannot be used: rank 1", job.stdout)


@pytest.mark.parametrize(
    "setting",
    [
        "FARANDOLE_GPU_PATH=staged",
        pytest.param("HOROVOD_GPU_OPERATIONS=MPI", marks=pytest.mark.slow),
        pytest.param("HOROVOD_GPU_ALLREDUCE=MPI", marks=pytest.mark.slow),
    ],
)
def test_settings_select_the_host(tmp_path: Path, setting: str) -> None:
    name, value = setting.split("=")
    job = run_sums(2, tmp_path, **{name: value})
    assert kernels(job.stdout) == [0, 0]
    assert "through host memory" not in job.stdout  # it is what the user asked for


LATE = (
    PRELUDE
    + """
from device_arrays import nccl
hvd.init()
stream = Stream()
with stream:
    array = DeviceArray(numpy.full(100, 1.0, "float32"))
    summed("a", array)
    if hvd.rank() == 1:
        os.environ["FARANDOLE_FAKE_NCCL_FAILS"] = "launch"
    try:
        job.runtime.submit(SUM, "a", array, array, 0).wait()
        job.runtime.wait_for_devices()  # as save() and commit() of elastic state do
    except hvd.HorovodInternalError as problem:
        print(f"rank {hvd.rank()} got: {problem}", flush=True)
stream.synchronize()  # no kernel is left waiting
print(f"rank {hvd.rank()}: misuses {nccl.fakeNcclMisuses()}", flush=True)
"""
)


def test_a_failing_launch_is_told_on_its_rank_and_the_others_learn_of_it_before_they_save(tmp_path: Path) -> None:
    job = run_script(2, tmp_path, LATE, FARANDOLE_FAKE_GPUS="4")
    assert re.search(r"rank 1 got: .*ncclGroupEnd failed: unhandled error of CUDA", job.stdout), job.stdout
    assert re.search(r"rank 0 got: .*rank 1", job.stdout), job.stdout
    assert job.stdout.count("misuses 0") == 2


@pytest.mark.slow
def test_ranks_that_share_a_gpu_use_nccl_only_if_all_of_them_allow_it(tmp_path: Path) -> None:
    for allowed_on_all, expected in ((False, [0, 0]), (True, [3, 3])):
        environment = {"FARANDOLE_FAKE_GPUS": "1", "FARANDOLE_FAKE_NCCL": "23000"}
        environment["NCCL_MULTI_RANK_GPU_ENABLE" if allowed_on_all else "ON_RANK_1"] = (
            "1" if allowed_on_all else "NCCL_MULTI_RANK_GPU_ENABLE=1"
        )
        assert kernels(run_script(2, tmp_path, SUMS, **environment).stdout) == expected


@pytest.mark.slow
def test_a_forced_nccl_leaves_other_operations_to_the_host(tmp_path: Path) -> None:
    script = SUMS.replace('"float32"', '"int16"').replace(
        "for _ in range(3)", "summed('f', DeviceArray(numpy.ones(5, 'float32')))\n        for _ in range(3)"
    )
    job = run_script(2, tmp_path, script, FARANDOLE_FAKE_GPUS="4", FARANDOLE_GPU_PATH="nccl")
    assert kernels(job.stdout) == [1, 1]


@pytest.mark.slow
def test_blocking_communicators_are_not_used(tmp_path: Path) -> None:
    job = run_sums(2, tmp_path, "NCCL_COMM_BLOCKING=1")
    assert kernels(job.stdout) == [0, 0]
    assert re.search(r"rank 1 on \S+: NCCL_COMM_BLOCKING is set", job.stdout), job.stdout


BUSY = (
    PRELUDE
    + """
import ctypes, os, threading
from device_arrays import call
errors, own_errors = os.pipe()
os.dup2(own_errors, 2)
hvd.init()
stream, other = Stream(), Stream()
with stream:
    array = DeviceArray(numpy.full(100, 1.0, "float32"))
    assert (summed("a", array) == hvd.size()).all()
release = threading.Event()
function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: release.wait(200) and None)
call("cuLaunchHostFunc", other.handle, function, None)  # the script's own work, which keeps the GPU busy
hvd.shutdown()
print("told:", next(line for line in open(errors) if "GPU busy" in line))
release.set()
other.synchronize()
print("went well", flush=True)
"""
)


@pytest.mark.slow
def test_a_gpu_that_is_busy_with_other_work_is_no_reason_to_end_the_process(tmp_path: Path) -> None:
    job = run_script(2, tmp_path, BUSY, FARANDOLE_FAKE_GPUS="4", HOROVOD_GLOO_TIMEOUT_SECONDS="8")
    assert job.stdout.count("went well") == 2, job.stdout
    warning = r"told: farandole: WARNING: nccl\S+ on GPU \d has not .*: other work keeps the GPU busy"
    assert len(re.findall(warning, job.stdout)) == 2, job.stdout


def test_two_sets_on_gpus_that_run_one_kernel_at_a_time(tmp_path: Path) -> None:
    script = (
        PRELUDE
        + """
sets = [hvd.ProcessSet([0, 1]), hvd.ProcessSet([1, 2]), hvd.ProcessSet([0, 2])]
hvd.init(process_sets=sets)
own = [0, *(each.process_set_id for each in sets if hvd.rank() in each.ranks)]
order = numpy.random.default_rng(hvd.rank())
stream = Stream()
with stream:
    for step in range(20):
        arrays = {set_id: DeviceArray(numpy.full(10, 1.0, "float32")) for set_id in own}
        handles = [job.runtime.submit(SUM, f"s{s}", arrays[s], arrays[s], s) for s in order.permutation(own).tolist()]
        for handle in handles:
            handle.wait()
        assert all((arrays[s].read() == (3 if s == 0 else 2)).all() for s in own)
print("went well", flush=True)
"""
    )
    job = run_script(3, tmp_path, script, FARANDOLE_FAKE_GPUS="4", FARANDOLE_FAKE_NCCL_RESIDENT="1")
    assert job.stdout.count("went well") == 3
