"""The table of functions of the native module, through which kernels of frameworks submit operations."""

import ctypes
import os
import re
import subprocess
import threading
from pathlib import Path

import farandole.numpy as hvd
import numpy as np
import pytest
from farandole import _native
from farandole.common import job
from launched import DEADLINE_S

TEXT_BYTES = 1024
PRECONDITION, INVALID_ARGUMENT = 1, 2
ALLREDUCE, ALLGATHER, FLOAT32, SUM = 0, 1, 8, 1
COMPLETION_ANY, COMPLETION_CALLBACK = 0, 2
HOST_MEMORY = -1
REDUCED, NOTHING, ROWS = range(3)
ASK_RANK, ASK_SIZE, ASK_LOCAL_RANK, ASK_LOCAL_SIZE, ASK_INCLUDED = range(5)


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("text", ctypes.c_char * TEXT_BYTES)]


class Submission(ctypes.Structure):
    _fields_ = [
        ("bytes", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("operation", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("reduce_op", ctypes.c_int32),
        ("root", ctypes.c_int32),
        ("prescale", ctypes.c_double),
        ("postscale", ctypes.c_double),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("dimensions", ctypes.c_size_t),
        ("input", ctypes.c_void_p),
        ("output", ctypes.c_void_p),
        ("set", ctypes.c_uint32),
        ("splits", ctypes.POINTER(ctypes.c_int64)),
        ("split_count", ctypes.c_size_t),
        ("completion_mode", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("stream", ctypes.c_void_p),
        ("readiness", ctypes.c_int32),
    ]


class Result(ctypes.Structure):
    _fields_ = [
        ("bytes", ctypes.c_void_p),
        ("byte_count", ctypes.c_size_t),
        ("first_dims", ctypes.POINTER(ctypes.c_int64)),
        ("first_dim_count", ctypes.c_size_t),
        ("last_rank", ctypes.c_int32),
    ]


Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
Reason = ctypes.POINTER(Error)
Handle = ctypes.c_void_p


class KernelApi(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint32),
        (
            "submit",
            ctypes.CFUNCTYPE(
                ctypes.c_int, ctypes.POINTER(Submission), ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p), Reason
            ),
        ),
        ("on_settled", ctypes.CFUNCTYPE(ctypes.c_int, Handle, Callback, ctypes.c_void_p, Reason)),
        ("wait", ctypes.CFUNCTYPE(ctypes.c_int, Handle, ctypes.c_int64, Reason)),
        ("get_result", ctypes.CFUNCTYPE(ctypes.c_int, Handle, ctypes.POINTER(Result), Reason)),
        ("release", ctypes.CFUNCTYPE(None, Handle)),
        (
            "ask",
            ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(ctypes.c_int32), Reason),
        ),
        ("cancel", ctypes.CFUNCTYPE(None, Handle)),
        ("kind_of", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_int)),
        (
            "submit_absent",
            ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Submission), ctypes.POINTER(ctypes.c_void_p), Reason),
        ),
        ("absent_result", ctypes.CFUNCTYPE(ctypes.c_int, Handle)),
    ]


kernel_api = KernelApi.from_address(_native.kernel_api())


def submission(name, array, operation=ALLREDUCE, output=None):
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    return Submission(
        bytes=ctypes.sizeof(Submission),
        name=name.encode(),
        operation=operation,
        dtype=FLOAT32,
        reduce_op=SUM,
        root=-1,
        prescale=1.0,
        postscale=1.0,
        shape=shape,
        dimensions=array.ndim,
        input=array.ctypes.data,
        output=None if output is None else output.ctypes.data,
        device=HOST_MEMORY,
    )


def submit(*submissions):
    handles = (ctypes.c_void_p * len(submissions))()
    error = Error()
    status = kernel_api.submit((Submission * len(submissions))(*submissions), len(submissions), handles, error)
    assert status == 0, error.text.decode()
    return list(handles)


def ask(question, process_set=0):
    answer, error = ctypes.c_int32(-7), Error()
    status = kernel_api.ask(question, process_set, answer, error)
    return answer.value if status == 0 else (status, error.text.decode())


def test_a_group_is_reduced_and_calls_back_when_it_completes():
    arrays = [np.full((3,), float(hvd.rank() + i), np.float32) for i in range(2)]
    handles = submit(*(submission(f"door.group.{i}", array, output=array) for i, array in enumerate(arrays)))
    settled = [threading.Event() for _ in handles]
    callbacks = [Callback(lambda _, event=event: event.set()) for event in settled]
    for handle, callback in zip(handles, callbacks):
        assert kernel_api.on_settled(handle, callback, None, None) == 0
    for i, (event, handle) in enumerate(zip(settled, handles)):
        assert event.wait(DEADLINE_S)
        kernel_api.release(handle)
        assert arrays[i].tolist() == [sum(range(hvd.size())) + i * hvd.size()] * 3


@pytest.mark.skipif(
    os.environ.get("HOROVOD_SIZE", "1") == "1"
    or os.environ.get("FARANDOLE_FAST_PATH") == "0"
    or os.environ.get("FARANDOLE_CPU_PATH", "") not in ("", "local"),
    reason="needs the fast path",
)
def test_an_operation_with_a_callback_only_never_takes_the_fast_path():
    def rounds(name, completion_mode):
        before = job.runtime.counters()["on_fast_path"]
        for step in range(4):
            array = np.full((3,), float(hvd.rank() + step), np.float32)
            request = submission(name, array, output=array)
            request.completion_mode = completion_mode
            (handle,) = submit(request)
            assert kernel_api.wait(handle, 60_000, None) == 0
            kernel_api.release(handle)
            assert array.tolist() == [sum(range(hvd.size())) + step * hvd.size()] * 3
        return job.runtime.counters()["on_fast_path"] - before

    assert rounds("door.callback", COMPLETION_CALLBACK) == 0
    assert rounds("door.anyhow", COMPLETION_ANY) > 0


def test_the_result_of_an_allgather_lies_in_memory_of_the_job():
    rows = np.full((hvd.rank() + 1, 2), float(hvd.rank()), np.float32)
    (handle,) = submit(submission("door.gather", rows, ALLGATHER))
    assert kernel_api.wait(handle, 60_000, None) == 0
    result = Result()
    assert kernel_api.get_result(handle, result, None) == 0
    assert [result.first_dims[i] for i in range(result.first_dim_count)] == [r + 1 for r in range(hvd.size())]
    gathered = np.frombuffer(ctypes.string_at(result.bytes, result.byte_count), np.float32).reshape(-1, 2)
    expected = np.concatenate([np.full((r + 1, 2), float(r), np.float32) for r in range(hvd.size())])
    assert gathered.tolist() == expected.tolist()
    kernel_api.release(handle)


@pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")
@pytest.mark.parametrize("others", [REDUCED, NOTHING, ROWS])
def test_a_rank_that_contributes_nothing_learns_what_the_others_have_contributed(others):
    name, array = f"door.absent.{others}", np.zeros((3, 2), np.float32)
    if hvd.rank() == 0 and others != NOTHING:
        array += 2.0
        (handle,) = submit(submission(name, array, *((ALLREDUCE, array) if others == REDUCED else (ALLGATHER,))))
    else:
        handle, error = ctypes.c_void_p(), Error()
        assert kernel_api.submit_absent(submission(name, array, output=array), handle, error) == 0, error.text
    assert kernel_api.wait(handle, 60_000, None) == 0
    if hvd.rank():
        assert kernel_api.absent_result(handle) == others
        assert array.tolist() == [[2.0 if others == REDUCED else 0.0] * 2] * 3
    kernel_api.release(handle)


def test_a_refused_submission_has_the_status_and_the_text_of_the_core():
    array = np.zeros((2,), np.float32)
    wrong = submission("door.wrong", array, output=array)
    wrong.dtype = 99
    error = Error()
    assert kernel_api.submit(wrong, 1, (ctypes.c_void_p * 1)(), error) == INVALID_ARGUMENT
    assert "door.wrong" in error.text.decode() and "99" in error.text.decode()


def test_ask_returns_the_ranks_and_sizes_of_the_job():
    assert ask(ASK_RANK) == hvd.rank()
    assert ask(ASK_SIZE) == hvd.size()
    assert ask(ASK_LOCAL_RANK) == hvd.local_rank()
    assert ask(ASK_LOCAL_SIZE) == hvd.local_size()
    status, text = ask(ASK_SIZE, 77)
    assert status == INVALID_ARGUMENT and "77" in text


def test_ask_returns_the_rank_and_size_of_a_process_set():
    size = hvd.size()
    hvd.shutdown()
    last = hvd.ProcessSet([size - 1])
    hvd.init(process_sets=[last] if size > 1 else None)
    number = last.process_set_id or 0
    inside = hvd.rank() == size - 1
    assert ask(ASK_SIZE, number) == 1
    assert ask(ASK_INCLUDED, number) == int(inside)
    rank = ask(ASK_RANK, number)
    if inside:
        assert rank == 0
    else:
        assert rank[0] == INVALID_ARGUMENT and f"rank {hvd.rank()}" in rank[1]


def test_calls_fail_between_shutdown_and_init():
    hvd.shutdown()
    try:
        status, text = ask(ASK_RANK)
        assert status == PRECONDITION and "init()" in text
        array = np.zeros((2,), np.float32)
        assert (
            kernel_api.submit(submission("door.closed", array, output=array), 1, (ctypes.c_void_p * 1)(), None)
            == PRECONDITION
        )
    finally:
        hvd.init()
    assert ask(ASK_RANK) == hvd.rank()


KERNELS = sorted((Path(_native.__file__).parent / "kernels").glob("*.so"))


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.name)
def test_kernels_are_not_linked_to_a_framework(path):
    # One binary then serves every version of a framework, and no framework is needed to build it.
    listed = subprocess.run(["readelf", "-d", str(path)], check=True, stdout=subprocess.PIPE, text=True).stdout
    needed = set(re.findall(r"NEEDED.*\[(.*?)\.so", listed))
    assert needed <= {"libc", "libdl", "libgcc_s", "libm", "libpthread", "libstdc++", "ld-linux-x86-64"}


def test_mxnet_and_tensorflow_have_their_kernels():
    assert {"libfarandole_mxnet.so", "libfarandole_tensorflow.so"} <= {path.name for path in KERNELS}
