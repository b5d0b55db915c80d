"""What kernels of frameworks get in through: the table of functions that the native module gives out."""

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

TEXT_BYTES = 1024
PRECONDITION, INVALID_ARGUMENT = 1, 2
ALLREDUCE, ALLGATHER, FLOAT32, SUM = 0, 1, 8, 1
TOLD_ANYHOW, TOLD_CALLBACK = 0, 2
ASK_RANK, ASK_SIZE, ASK_LOCAL_RANK, ASK_LOCAL_SIZE, ASK_INCLUDED = range(5)


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("text", ctypes.c_char * TEXT_BYTES)]


class Submission(ctypes.Structure):
    _fields_ = [
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
        ("told", ctypes.c_int32),
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
Why = ctypes.POINTER(Error)
Handle = ctypes.c_void_p


class Door(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint32),
        (
            "submit",
            ctypes.CFUNCTYPE(
                ctypes.c_int, ctypes.POINTER(Submission), ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p), Why
            ),
        ),
        ("on_settled", ctypes.CFUNCTYPE(ctypes.c_int, Handle, Callback, ctypes.c_void_p, Why)),
        ("wait", ctypes.CFUNCTYPE(ctypes.c_int, Handle, ctypes.c_int64, Why)),
        ("get_result", ctypes.CFUNCTYPE(ctypes.c_int, Handle, ctypes.POINTER(Result), Why)),
        ("release", ctypes.CFUNCTYPE(None, Handle)),
        ("ask", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(ctypes.c_int32), Why)),
    ]


door = Door.from_address(_native.kernel_api())


def submission(name, array, operation=ALLREDUCE, output=None):
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    return Submission(
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
    )


def submit(*submissions):
    handles = (ctypes.c_void_p * len(submissions))()
    why = Error()
    status = door.submit((Submission * len(submissions))(*submissions), len(submissions), handles, why)
    assert status == 0, why.text.decode()
    return list(handles)


def asked(question, process_set=0):
    answer, why = ctypes.c_int32(-7), Error()
    status = door.ask(question, process_set, answer, why)
    return answer.value if status == 0 else (status, why.text.decode())


def test_a_group_is_reduced_and_tells_when_it_has_settled():
    arrays = [np.full((3,), float(hvd.rank() + i), np.float32) for i in range(2)]
    handles = submit(*(submission(f"door.group.{i}", each, output=each) for i, each in enumerate(arrays)))
    told = [threading.Event() for _ in handles]
    callbacks = [Callback(lambda _, event=event: event.set()) for event in told]
    for handle, callback in zip(handles, callbacks):
        assert door.on_settled(handle, callback, None, None) == 0
    for i, (event, handle) in enumerate(zip(told, handles)):
        assert event.wait(60)
        door.release(handle)
        assert arrays[i].tolist() == [sum(range(hvd.size())) + i * hvd.size()] * 3


@pytest.mark.skipif(
    os.environ.get("HOROVOD_SIZE", "1") == "1"
    or os.environ.get("FARANDOLE_FAST_PATH") == "0"
    or os.environ.get("FARANDOLE_CPU_PATH", "") not in ("", "local"),
    reason="needs the board",
)
def test_what_is_left_to_a_callback_never_goes_by_the_board():
    def rounds(name, told):
        before = job.runtime.counters()["on_fast_path"]
        for step in range(4):
            array = np.full((3,), float(hvd.rank() + step), np.float32)
            asked = submission(name, array, output=array)
            asked.told = told
            (handle,) = submit(asked)
            assert door.wait(handle, 60_000, None) == 0
            door.release(handle)
            assert array.tolist() == [sum(range(hvd.size())) + step * hvd.size()] * 3
        return job.runtime.counters()["on_fast_path"] - before

    assert rounds("door.callback", TOLD_CALLBACK) == 0
    assert rounds("door.anyhow", TOLD_ANYHOW) > 0


def test_what_only_the_job_knows_the_size_of_lies_in_its_memory():
    rows = np.full((hvd.rank() + 1, 2), float(hvd.rank()), np.float32)
    (handle,) = submit(submission("door.gather", rows, ALLGATHER))
    assert door.wait(handle, 60_000, None) == 0
    result = Result()
    assert door.get_result(handle, result, None) == 0
    assert [result.first_dims[i] for i in range(result.first_dim_count)] == [r + 1 for r in range(hvd.size())]
    gathered = np.frombuffer(ctypes.string_at(result.bytes, result.byte_count), np.float32).reshape(-1, 2)
    expected = np.concatenate([np.full((r + 1, 2), float(r), np.float32) for r in range(hvd.size())])
    assert gathered.tolist() == expected.tolist()
    door.release(handle)


def test_a_refusal_has_the_status_and_the_text_of_the_core():
    array = np.zeros((2,), np.float32)
    wrong = submission("door.wrong", array, output=array)
    wrong.dtype = 99
    why = Error()
    assert door.submit(wrong, 1, (ctypes.c_void_p * 1)(), why) == INVALID_ARGUMENT
    assert "door.wrong" in why.text.decode() and "99" in why.text.decode()


def test_it_tells_where_this_process_stands():
    assert asked(ASK_RANK) == hvd.rank()
    assert asked(ASK_SIZE) == hvd.size()
    assert asked(ASK_LOCAL_RANK) == hvd.local_rank()
    assert asked(ASK_LOCAL_SIZE) == hvd.local_size()
    status, text = asked(ASK_SIZE, 77)
    assert status == INVALID_ARGUMENT and "77" in text


def test_it_tells_the_places_in_a_process_set():
    size = hvd.size()
    hvd.shutdown()
    last = hvd.ProcessSet([size - 1])
    hvd.init(process_sets=[last] if size > 1 else None)
    number = last.process_set_id or 0
    inside = hvd.rank() == size - 1
    assert asked(ASK_SIZE, number) == 1
    assert asked(ASK_INCLUDED, number) == int(inside)
    rank = asked(ASK_RANK, number)
    if inside:
        assert rank == 0
    else:
        assert rank[0] == INVALID_ARGUMENT and f"rank {hvd.rank()}" in rank[1]


def test_it_is_closed_between_shutdown_and_init():
    hvd.shutdown()
    try:
        status, text = asked(ASK_RANK)
        assert status == PRECONDITION and "init()" in text
        array = np.zeros((2,), np.float32)
        assert (
            door.submit(submission("door.closed", array, output=array), 1, (ctypes.c_void_p * 1)(), None)
            == PRECONDITION
        )
    finally:
        hvd.init()
    assert asked(ASK_RANK) == hvd.rank()


KERNELS = sorted((Path(_native.__file__).parent / "kernels").glob("*.so"))


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.name)
def test_kernels_are_linked_to_nothing_of_a_framework(path):
    # So one binary serves every version of it, and none has to be there when it is built.
    listed = subprocess.run(["readelf", "-d", str(path)], check=True, stdout=subprocess.PIPE, text=True).stdout
    needed = set(re.findall(r"NEEDED.*\[(.*?)\.so", listed))
    assert needed <= {"libc", "libdl", "libgcc_s", "libm", "libpthread", "libstdc++", "ld-linux-x86-64"}


def test_every_framework_has_its_kernels():
    assert {"libfarandole_mxnet.so", "libfarandole_tensorflow.so"} <= {path.name for path in KERNELS}
