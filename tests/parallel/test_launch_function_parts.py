"""The parts of ``horovod.run()`` without processes: records, pickling, output, folders of modules, and calls."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, List, Tuple

import pytest
from farandole.runner import worker
from farandole.runner.functions import call, messages, output, paths, pickling


def test_records_are_found_however_the_stream_is_cut() -> None:
    stream = messages.message(1, b"abc") + messages.message(2) + messages.message(3, bytes(1000))
    for size in (1, 7, 9, len(stream)):
        reader = messages.RecordReader(1000)
        found = [each for start in range(0, len(stream), size) for each in reader.feed(stream[start : start + size])]
        assert found == [(1, b"abc"), (2, b""), (3, bytes(1000))]


def test_a_record_that_is_too_long_is_refused_at_its_header() -> None:
    reader = messages.RecordReader(1000)
    with pytest.raises(messages.ProtocolError, match="a record of 1001 bytes arrived, and at most 1000 are allowed"):
        list(reader.feed(messages.HEADER.pack(1, 1001)))


def test_a_message_of_the_longest_piece_fits_into_a_frame() -> None:
    pieces: List[bytes] = []
    with messages.writer(pieces.append) as stream:
        stream.write(bytes(3 * messages.MOST_FRAME_BYTES))
    assert sum(map(len, pieces)) == 3 * messages.MOST_FRAME_BYTES
    assert max(len(messages.message(messages.PIECE, piece)) for piece in pieces) == messages.MOST_FRAME_BYTES


def test_values_survive_the_way_through_pieces() -> None:
    value = {"large": bytes(5_000_000), "many": list(range(1000)), "function": lambda: 7}
    pieces = pickling.pieces_of(value, "value")
    assert len(pieces) > 4
    pieces.append(b"of the next value")
    taken = iter(pieces)
    read = pickling.load(messages.reader(lambda: next(taken, None)))
    assert (read["large"], read["many"], read["function"]()) == (value["large"], value["many"], 7)


class Holder:
    def __init__(self) -> None:
        self.inner = {"lock": threading.Lock()}

    def method(self) -> None: ...


class Refusing:
    def __reduce__(self) -> Any:
        raise ValueError("not this one")


@pytest.mark.parametrize(
    "value, text",
    [
        (threading.Lock(), r"value \(_thread.lock\)"),
        (Holder(), r"value.inner\['lock'\] \(_thread.lock\)"),
        (Holder().method, r"value.__self__.inner\['lock'\] \(_thread.lock\)"),
        ((1, [Refusing()]), r"value\[1\]\[0\] \(.*Refusing\) cannot be pickled: ValueError: not this one"),
        (lambda lock=threading.Lock(): lock, r"value: its default value 0 \(_thread.lock\)"),  # noqa: B008
    ],
)
def test_the_part_that_cannot_be_pickled_is_named(value: Any, text: str) -> None:
    with pytest.raises(pickle.PicklingError, match=text):
        pickling.pieces_of(value, "value")


def test_an_error_of_the_stream_is_no_error_of_the_value() -> None:
    def refuse(piece: bytes) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        pickling.dump(bytes(10_000_000), messages.writer(refuse), "value")


def test_output_that_is_cut_within_a_character_is_whole() -> None:
    text = io.StringIO()
    copy = output.OutputCopy("stdout")
    with contextlib.redirect_stdout(text):
        for byte in "[0]<stdout>:é\n".encode() + b"\xff\n":
            copy.add(bytes([byte]))
        copy.add(b"", is_last=True)
    assert text.getvalue() == "[0]<stdout>:é\n�\n"


def test_only_lines_of_the_launcher_are_remembered() -> None:
    copy = output.OutputCopy("stderr")
    lines = "[0]<stderr>:a\nfarandole: b\nMon Jan  5 09:00:00 2026[10]<stderr>:c\n[h[0]]\nlast"
    with contextlib.redirect_stderr(io.StringIO()):
        copy.add(lines.encode())
    assert copy.launcher_lines() == ["farandole: b", "[h[0]]", "last"]


def test_folders_of_the_caller_are_those_that_no_interpreter_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    before = list(sys.path)
    standard = [each for each in before if each.startswith((sys.prefix, sys.base_prefix))]
    monkeypatch.setattr(sys, "path", ["/own/b", "", *standard, "/own/a", "/own/b"])
    assert paths.folders_of_caller() == ["/own/b", os.getcwd(), "/own/a"]


def test_a_worker_searches_the_folders_of_the_caller_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["/standard", "/own/a", "/site"])
    worker.extend_path(["/own/b", "/own/a"])
    assert sys.path == ["/own/b", "/own/a", "/standard", "/site"]


def test_the_package_of_the_caller_is_named_only_where_its_interpreter_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = str(Path(paths.__file__).resolve().parents[3])
    monkeypatch.setenv("PYTHONPATH", "/other")
    monkeypatch.setattr(paths, "_folders_of_interpreter", lambda: [])
    assert paths.environment_of(None)["PYTHONPATH"] == f"/other:{package}"
    assert paths.environment_of(str(tmp_path / "python"))["PYTHONPATH"] == "/other"
    monkeypatch.setattr(paths, "_folders_of_interpreter", lambda: [package])
    assert paths.environment_of(None)["PYTHONPATH"] == "/other"


def place(rank: int, host: str = "a") -> Any:
    return {"rank": rank, "local_rank": rank, "host": host, "process": 1}


def ready(current: call.Call, slot: int) -> None:
    current.on_event({"event": "started", "slot": slot, "host": "a", "process": 1})
    current.on_message(slot, messages.READY, json.dumps(place(slot)).encode())


def returned(current: call.Call, slot: int, value: Any) -> None:
    for piece in pickling.pieces_of(value, "value"):
        current.on_message(slot, messages.PIECE, piece)
    current.on_message(slot, messages.RETURNED, json.dumps(place(slot)).encode())


def raised(current: call.Call, slot: int, text: str, consequence: bool = False, kind: str = "ValueError") -> None:
    fields = {"type": kind, "text": text, "traceback": f"trace of {text}\n", "code": 1, "consequence": consequence}
    current.on_message(slot, messages.RAISED, json.dumps({**place(slot), **fields}).encode())


def kinds(outgoing: List[Tuple[int, bytes]]) -> List[Tuple[int, int]]:
    return [(slot, messages.HEADER.unpack_from(content)[0]) for slot, content in outgoing]


def test_an_elastic_worker_says_its_last_rank_after_shutdown() -> None:
    code = (
        "import farandole.numpy as hvd; from farandole.runner import worker;"
        "print(worker.place()['rank']); hvd.init(); hvd.shutdown(); print(worker.place()['rank'])"
    )
    environment = {**os.environ, "HOROVOD_ELASTIC": "1", "HOROVOD_RANK": "3"}  # its slot
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=240, check=True)
    assert done.stdout.split() == ["3", "0"]


def test_a_worker_gets_no_more_pieces_than_it_has_asked_for() -> None:
    count = messages.WINDOW + 2
    current = call.Call([b"piece"] * count, [])
    ready(current, 0)
    assert kinds(current.take_outgoing()) == [(0, messages.CALL), *[(0, messages.PIECE)] * messages.WINDOW]
    for _ in range(2):
        current.on_message(0, messages.MORE, b"")
        assert kinds(current.take_outgoing()) == [(0, messages.PIECE)]
    current.on_message(0, messages.MORE, b"")
    assert current.take_outgoing() == []


def test_results_are_those_of_the_first_ranks() -> None:
    current = call.Call([], [], is_elastic=True)
    for slot in (2, 0):
        ready(current, slot)
        returned(current, slot, slot * 10)
    assert current.results(2) is None
    assert current.first_missing(2) == 1
    ready(current, 1)
    returned(current, 1, 10)
    assert current.results(2) == [0, 10]


def test_the_cause_is_no_consequence_of_another_failure() -> None:
    current = call.Call([], [])
    for slot in range(3):
        ready(current, slot)
    raised(current, 2, "lost rank 1", consequence=True)
    raised(current, 1, "disk")
    raised(current, 0, "later")
    found = current.cause([])
    assert found is not None and (found.rank, found.text) == (1, "raised ValueError: disk")
    named = current.cause(["Process name: 0"])
    assert named is not None and named.rank == 0


def test_workers_that_the_launcher_ends_are_not_the_cause() -> None:
    current = call.Call([], [])
    ready(current, 0)
    ready(current, 1)
    current.on_event({"event": "ended", "slot": 1, "manner": "was killed by signal 9 (Killed)"})
    current.on_event({"event": "ended", "slot": 0, "manner": "was killed by signal 15 (Terminated)"})
    found = current.cause([])
    assert found is not None
    assert (found.rank, found.code) == (1, 137)
    assert found.text == "was killed by signal 9 (Killed) before its function returned"


def test_an_end_after_the_result_is_a_failure_only_with_a_code() -> None:
    current = call.Call([], [])
    for slot in range(2):
        ready(current, slot)
        returned(current, slot, None)
    current.on_event({"event": "ended", "slot": 0, "manner": "exited with code 0"})
    assert current.failures == []
    current.on_event({"event": "ended", "slot": 1, "manner": "exited with code 3"})
    assert [(each.rank, each.code, each.text) for each in current.failures] == [(1, 3, "exited with code 3")]


def test_a_worker_that_takes_the_slot_of_another_begins_anew() -> None:
    current = call.Call([b"piece"], [], is_elastic=True)
    ready(current, 0)
    current.on_message(0, messages.PIECE, b"half of a result")
    ready(current, 0)
    returned(current, 0, "whole")
    assert current.results(1) == ["whole"]


def test_an_elastic_worker_that_leaves_is_no_failure() -> None:
    current = call.Call([], [], is_elastic=True)
    ready(current, 0)
    report = {"type": "SystemExit", "text": "0", "traceback": "", "code": 0, "consequence": False}
    current.on_message(0, messages.RAISED, json.dumps({**place(0), **report}).encode())
    current.on_event({"event": "ended", "slot": 0, "manner": "exited with code 0"})
    assert current.failures == []


def test_a_result_that_the_caller_cannot_read_names_the_rank() -> None:
    current = call.Call([], [])
    ready(current, 0)
    current.on_message(0, messages.PIECE, b"no pickle")
    current.on_message(0, messages.RETURNED, json.dumps(place(0)).encode())
    assert current.results(1) is None
    assert "rank 0 on host a returned a result that cannot be read here: Unpick" in (
        f"{current.failures[0].where()} {current.failures[0].text}"
    )


def test_the_summary_of_the_launcher_begins_the_message() -> None:
    failure = call.Failure(1, "b", 1, "raised ValueError: disk", "1", "Traceback: disk\n")
    lines = ["something before", f"{call.SUMMARY}. The one …", "Process name: 1", "Exit code: 1", "Cause: x"]
    tail = ["Last lines of its stderr:", "    trace"]
    expected = "\n".join([*lines[1:], "Rank 1 on host b raised ValueError: disk", "Traceback: disk"])
    assert call.failure_text(failure, lines + tail, 1) == expected
    without_summary = call.failure_text(failure, ["other"], 1)
    assert without_summary.startswith(f"{call.SUMMARY}. The one that caused it was:\nProcess name: 1\nExit code: 1\n")
    assert call.failure_text(None, lines + tail, 1) == "\n".join([*lines[1:], *tail])
    assert call.failure_text(None, ["other"], 5) == "the launcher ended with exit code 5\nother"
