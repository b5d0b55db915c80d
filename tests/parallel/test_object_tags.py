"""Objects are unpickled only if a member of the job sent them, unchanged and not repeated.

Safe objects hold data only.
"""

from __future__ import annotations

import collections
import os
import pickle
import subprocess
from typing import Any, Callable

import horovod.torch as hvd
import numpy as np
import pytest
import torch
from farandole.common import object_tags, objects, safe_objects
from farandole.common.object_tags import ObjectTags, ReplayWindow

KEY = bytes(range(32))


def sealed(tags: ObjectTags, body: bytes, name: str = "state", process_set: int = 0) -> memoryview:
    content = memoryview(bytearray(tags.header_bytes()) + body)
    tags.seal(content, name, process_set)
    return content


@pytest.fixture
def sender() -> ObjectTags:
    return ObjectTags(KEY, generation=4, rank=1)


@pytest.fixture
def receiver() -> ObjectTags:
    return ObjectTags(KEY, generation=4, rank=0)


def test_the_receiver_opens_a_sealed_object_unchanged(sender: ObjectTags, receiver: ObjectTags) -> None:
    for body in (b"", b"some bytes", bytes(100_000)):
        assert receiver.open(sealed(sender, body), "state", 0, 1) == body


def test_objects_without_a_key_carry_no_header() -> None:
    tags = ObjectTags(b"", generation=1, rank=0)
    assert bytes(sealed(tags, b"body")) == b"body"
    assert tags.open(memoryview(b"body"), "state", 0, 0) == b"body"


def test_an_object_with_any_bit_changed_is_refused(sender: ObjectTags, receiver: ObjectTags) -> None:
    content = bytes(sealed(sender, b"body"))
    for bit in range(8 * len(content)):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(hvd.HorovodInternalError, match="from rank 1 was not accepted by rank 0"):
            receiver.open(memoryview(changed), "state", 0, 1)
    assert receiver.open(memoryview(content), "state", 0, 1) == b"body"


@pytest.mark.parametrize("length", [0, 1, 43])
def test_an_object_shorter_than_its_header_is_refused(receiver: ObjectTags, length: int) -> None:
    with pytest.raises(hvd.HorovodInternalError, match="fewer than its header"):
        receiver.open(memoryview(bytes(length)), "state", 0, 1)


@pytest.mark.parametrize(
    "wrong_sender",
    [
        ObjectTags(bytes(32), generation=4, rank=1),
        ObjectTags(KEY, generation=3, rank=1),
        ObjectTags(KEY, generation=4, rank=2),
    ],
    ids=["another key", "another generation", "another sender"],
)
def test_an_object_sealed_with_another_key_generation_or_rank_is_refused(
    wrong_sender: ObjectTags, receiver: ObjectTags
) -> None:
    with pytest.raises(hvd.HorovodInternalError, match="rank 1 was not accepted"):
        receiver.open(sealed(wrong_sender, b"body"), "state", 0, 1)


def test_an_object_of_another_name_or_process_set_is_refused(sender: ObjectTags, receiver: ObjectTags) -> None:
    with pytest.raises(hvd.HorovodInternalError):
        receiver.open(sealed(sender, b"body", name="other"), "state", 0, 1)
    with pytest.raises(hvd.HorovodInternalError):
        receiver.open(sealed(sender, b"body", process_set=2), "state", 0, 1)


def test_a_replayed_object_is_refused(sender: ObjectTags, receiver: ObjectTags) -> None:
    content = sealed(sender, b"body")
    receiver.open(content, "state", 0, 1)
    with pytest.raises(hvd.HorovodInternalError, match="object 1 of that rank has been received before"):
        receiver.open(content, "state", 0, 1)


def test_the_replay_window_accepts_each_number_once_in_any_order() -> None:
    window = ReplayWindow()
    assert [window.accept(number) for number in (1, 3, 2, 2, 3, 70, 6, 7, 7)] == [
        *(True, True, True, False, False, True),
        *(False, True, False),  # 6 is 64 below 70
    ]
    assert window.accept(1000)
    assert not window.accept(70)


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, 2.5, None, True, (3, {4}), b"x", "y"], "b": collections.OrderedDict(c=1)},
        np.arange(6, dtype="float32").reshape(2, 3),
        np.float64(2.5),
        torch.arange(6, dtype=torch.bfloat16).reshape(2, 3),
        torch.nn.Parameter(torch.ones(2)),
        {"dtype": torch.float16, "shape": torch.Size([1, 2])},
    ],
    ids=["containers", "array", "scalar", "tensor", "parameter", "dtype"],
)
@pytest.mark.parametrize("protocol", [4, 5])
def test_safe_objects_load_tensors_arrays_and_containers(value: Any, protocol: int) -> None:
    received = safe_objects.loads(memoryview(pickle.dumps(value, protocol)))
    assert type(received) is type(value)
    if isinstance(value, (np.ndarray, torch.Tensor)):
        assert received.dtype == value.dtype and (received == value).all()
    else:
        assert received == value


class Hostile:
    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize(
    "value",
    [
        Hostile(subprocess.call, ["true"]),
        Hostile(eval, "1"),
        Hostile(getattr, "a", "upper"),
        Hostile(torch.storage._load_from_bytes, pickle.dumps(Hostile(eval, "1"))),
        Hostile(torch.load, "/dev/null"),
        Hostile(np.load, "/dev/null"),
        lambda: 1,
    ],
    ids=["process", "eval", "getattr", "storage", "torch.load", "numpy.load", "function"],
)
def test_safe_objects_refuse_pickles_that_call_functions(value: Any) -> None:
    import cloudpickle

    with pytest.raises(pickle.UnpicklingError):
        safe_objects.loads(memoryview(cloudpickle.dumps(value)))


def test_a_rank_accepts_the_tagged_objects_of_members(rank: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tags = ObjectTags(KEY, generation=1, rank=rank)
    monkeypatch.setattr(object_tags, "of_this_job", lambda: tags)
    for _ in range(3):
        assert hvd.broadcast_object({"from": rank}, root_rank=size - 1, name="tagged") == {"from": size - 1}
        assert hvd.allgather_object({"from": rank}, name="tagged") == [{"from": source} for source in range(size)]


def test_an_object_of_a_rank_with_another_key_is_refused_with_its_rank(
    rank: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if size == 1:
        pytest.skip("needs two ranks")
    tags = ObjectTags(bytes(32) if rank == 1 else KEY, generation=1, rank=rank)
    monkeypatch.setattr(object_tags, "of_this_job", lambda: tags)
    refused_rank = 0 if rank == 1 else 1
    loaded = []
    monkeypatch.setattr(objects.pickle, "loads", loaded.append)
    with pytest.raises(
        hvd.HorovodInternalError, match=rf"forged: the object from rank {refused_rank} was not accepted"
    ):
        hvd.allgather_object("anything", name="forged")
    assert len(loaded) <= 1  # rank 0 loads its own object first


def test_the_job_has_an_object_key_if_its_path_needs_one() -> None:
    from farandole.common import job

    forced = os.environ.get("FARANDOLE_CPU_PATH", "auto")
    assert len(job.runtime.object_key) == (0 if forced in ("auto", "local", "") or hvd.size() == 1 else 32)


@pytest.mark.parametrize("setting", ["1", "true"])
def test_functions_are_refused_if_safe_objects_are_required(
    setting: str, rank: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FARANDOLE_SAFE_OBJECTS", setting)
    assert hvd.broadcast_object({"epoch": 3}, name="plain") == {"epoch": 3}
    if rank == 0:
        hvd.broadcast_object(lambda: 1, name="code")
    else:
        with pytest.raises(pickle.UnpicklingError, match="FARANDOLE_SAFE_OBJECTS=1 accepts tensors"):
            hvd.broadcast_object(None, name="code")
