"""Which workers take the next call of a session, and what happens before it: ``Calls``, without processes."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional

import pytest
from farandole.runner import worker
from farandole.runner.functions import messages, pickling, values
from farandole.runner.functions.calls import CallFuture, Calls, Request, Worker

PATIENCE_S = 30.0


class Played:
    """Calls of a session whose launcher and workers the test plays. Messages are kept by slot until the test asks."""

    def __init__(self, size: int, fewest: Optional[int] = None, are_members: bool = False) -> None:
        self.now = 100.0
        self.calls = Calls(size, fewest, are_members, PATIENCE_S, self.now)
        self.hosts: Dict[int, str] = {}
        self.sizes: List[int] = []
        self.left: List[int] = []
        self.functions: Dict[int, Any] = {}
        self.arguments: Dict[int, Any] = {}

    def start(self, *slots: int, host: str = "a", is_ready: bool = True) -> None:
        for slot in slots:
            self.hosts[slot] = host
            event = {"event": "started", "slot": slot, "host": host, "process": 1000 + slot}
            self.calls.on_event(event, self.now)
            if is_ready:
                self.ready(slot)

    def ready(self, *slots: int, rank: Optional[int] = None) -> None:
        for slot in slots:
            self.calls.on_message(slot, messages.READY, json.dumps(self.place(slot, rank)).encode())

    def place(self, slot: int, rank: Optional[int] = None) -> Dict[str, Any]:
        rank = slot if rank is None else rank
        return {"rank": rank, "local_rank": 0, "host": self.hosts[slot], "process": 1000 + slot}

    def end(self, slot: int, manner: str = "was killed by signal 9") -> None:
        self.calls.on_event({"event": "ended", "slot": slot, "manner": manner}, self.now)

    def retire(self, *slots: int) -> None:
        for slot in slots:
            self.calls.on_event({"event": "retired", "slot": slot}, self.now)

    def submit(self, function: Any, ranks: Optional[List[int]] = None) -> CallFuture:
        request = Request(pickling.pieces_of((function, (), {}), "function"), ranks)
        self.calls.add(request)
        return request.future

    def scale(self, size: int) -> CallFuture:
        request = Request([], size=size)
        self.calls.add(request)
        return request.future

    def sent(self) -> Dict[int, Any]:
        """The functions that workers have got since the last call of this method, by slot."""
        self.functions = {}
        pieces: Dict[int, bytes] = {}
        for slot, content in self.calls.advance(self.now):
            if slot == messages.EVENT_SLOT:
                self.sizes += messages.WORKERS.unpack(content)
                continue
            for kind, body in messages.RecordReader(messages.MOST_FRAME_BYTES).feed(content):
                if kind == messages.LEAVE:
                    self.left.append(slot)
                elif kind == messages.PIECE:
                    pieces[slot] = pieces.get(slot, b"") + body
        for slot, content in pieces.items():
            function, self.arguments[slot], _ = pickling.load(messages.reader(iter([content, None]).__next__))
            self.functions[slot] = function
        return self.functions

    def returned(self, *slots: int, value: Any = None, rank: Optional[int] = None) -> None:
        for slot in slots:
            for piece in pickling.pieces_of(value, "value"):
                self.calls.on_message(slot, messages.PIECE, piece)
            self.calls.on_message(slot, messages.RETURNED, json.dumps(self.place(slot, rank)).encode())
            self.ready(slot, rank=rank)

    def raised(self, slot: int, text: str, consequence: bool = False) -> None:
        fields = {"type": "ValueError", "text": text, "traceback": "", "code": 1, "consequence": consequence}
        self.calls.on_message(slot, messages.RAISED, json.dumps({**self.place(slot), **fields}).encode())
        self.ready(slot)

    def joined(self, *slots: int) -> None:
        """These workers form a job when they are asked to, and have the ranks of this order."""
        assert self.sent() == dict.fromkeys(slots, worker.join_job_again)
        for rank, slot in enumerate(slots):
            self.returned(slot, rank=rank)

    def ranks(self) -> List[int]:
        """The slots by rank."""
        return [each.process - 1000 for each in self.calls.workers]


def test_a_call_begins_when_all_workers_are_ready() -> None:
    session = Played(2)
    future = session.submit(len)
    session.start(0)
    assert session.sent() == {}
    session.start(1, is_ready=False)
    assert session.sent() == {}
    session.ready(1)
    assert session.sent() == {0: len, 1: len}
    session.returned(1, value=11)
    assert session.sent() == {} and not future.done()
    session.returned(0, value=10)
    session.sent()
    assert future.result(0) == [10, 11]


def test_members_form_a_job_before_the_first_call_and_after_one_that_failed() -> None:
    session = Played(2, are_members=True)
    session.start(0, 1)
    first, second = session.submit(len), session.submit(max)
    session.joined(0, 1)
    assert session.sent() == {0: len, 1: len}
    session.raised(1, "wrong")
    session.returned(0)
    session.joined(0, 1)
    assert session.sent() == {0: max, 1: max}
    session.returned(0, 1)
    session.sent()
    with pytest.raises(RuntimeError, match="^Rank 1 on host a raised ValueError: wrong$"):
        first.result(0)
    assert second.result(0) == [None, None]


def test_a_job_that_cannot_form_fails_the_next_call_only() -> None:
    session = Played(1, are_members=True)
    session.start(0)
    first, second = session.submit(len), session.submit(max)
    session.sent()
    session.raised(0, "no network")
    session.joined(0)
    with pytest.raises(RuntimeError, match="no network"):
        first.result(0)
    assert session.sent() == {0: max} and not second.done()


def test_a_worker_that_is_ready_late_joins_the_job_that_forms() -> None:
    """Otherwise the others would wait for it."""
    session = Played(3, fewest=2, are_members=True)
    session.start(0, 1)
    session.submit(len)
    session.now += PATIENCE_S
    assert session.sent() == {0: worker.join_job_again, 1: worker.join_job_again}
    session.start(2)
    assert session.sent() == {2: worker.join_job_again}
    for slot in range(3):
        session.returned(slot)
    assert session.sent() == dict.fromkeys(range(3), len)


def test_a_dead_worker_fails_the_call_of_an_elastic_session_and_the_next_one_waits_for_its_replacement() -> None:
    session = Played(3, fewest=1, are_members=True)
    session.start(0, 1, 2)
    first, second = session.submit(len), session.submit(max, ranks=[2])
    session.joined(0, 1, 2)
    session.sent()
    session.end(1)
    session.raised(0, "lost rank 1", consequence=True)
    assert session.calls.has_failed
    session.returned(2)
    assert session.sent() == {}
    with pytest.raises(RuntimeError) as raised:
        first.result(0)
    assert str(raised.value) == (
        "Rank 1 on host a was killed by signal 9 before its function returned\n"
        "Also failed: rank 0 on host a raised ValueError: lost rank 1"
    )
    assert session.calls.reason_to_end(session.now) == ""
    session.now += PATIENCE_S - 1
    assert session.sent() == {}
    session.start(3, host="b")
    session.joined(0, 2, 3)
    assert session.calls.workers[2] == Worker(2, "b", 1003)
    assert session.sent() == {3: max}
    assert not second.done()


def test_an_elastic_session_goes_on_with_fewer_workers_after_a_while() -> None:
    session = Played(3, fewest=2)
    session.start(0, 1, 2)
    session.end(0)
    session.submit(len)
    assert session.sent() == {}
    assert session.calls.next_time(session.now) == session.now + PATIENCE_S
    session.now += PATIENCE_S
    assert session.sent() == {1: len, 2: len}
    session.end(1)
    session.returned(2)
    session.submit(len)
    session.now += PATIENCE_S
    assert session.sent() == {}, "one worker is fewer than two"
    assert session.calls.next_time(session.now) is None


def test_a_worker_that_dies_while_a_job_forms_makes_it_form_again() -> None:
    session = Played(2, fewest=1, are_members=True)
    session.start(0, 1)
    future = session.submit(len)
    session.sent()
    session.end(1)
    session.raised(0, "lost rank 1", consequence=True)
    session.start(2)
    session.joined(0, 2)
    assert session.sent() == {0: len, 2: len} and not future.done()


def test_a_dead_worker_ends_a_session_that_is_not_elastic() -> None:
    session = Played(2)
    session.start(0, 1)
    session.end(1)
    assert session.calls.reason_to_end(session.now) == "rank 1 on host a was killed by signal 9"
    other = Played(1)
    other.end(0, "could not be started: no such file")
    assert other.calls.reason_to_end(other.now) == "the worker in slot 0 could not be started: no such file"


def test_a_worker_that_is_never_ready_ends_the_session() -> None:
    session = Played(2, fewest=1)
    session.start(0)
    session.start(1, is_ready=False)
    session.now += PATIENCE_S - 1
    assert session.calls.next_time(session.now) == session.now + 1
    assert session.calls.reason_to_end(session.now) == ""
    session.now += 1
    assert session.calls.reason_to_end(session.now).startswith(
        "the worker in process 1001 on host a was started 30 s ago and is not ready yet (start_timeout is 30 s)"
    )


def test_more_workers_are_started_after_the_calls_that_wait() -> None:
    session = Played(1)
    session.start(0)
    session.submit(len)
    future = session.scale(2)
    later = session.submit(max)
    session.sent()
    assert session.sizes == [] and session.calls.last_wanted == 2
    session.returned(0)
    assert session.sent() == {} and session.sizes == [2]
    session.start(1)
    assert session.sent() == {0: max, 1: max}
    assert future.result(0) is None and not later.done()


def test_workers_that_are_one_too_many_leave_before_the_next_call() -> None:
    session = Played(3, are_members=True)
    session.start(0, 1, 2)
    session.submit(len)
    session.joined(0, 1, 2)
    session.sent()
    session.returned(0, 1, 2)
    future = session.scale(1)
    session.submit(max)
    for _ in range(2):
        assert session.sent() == {}
    assert session.sizes == [1] and not future.done()
    session.retire(2, 1)
    session.joined(0)
    assert sorted(session.left) == [1, 2]
    assert session.sent() == {0: max}
    session.end(1, "exited with code 0")
    assert future.done() and session.ranks() == [0] and session.calls.reason_to_end(session.now) == ""


@pytest.mark.parametrize("fewest", [None, 1])
def test_a_change_for_which_there_are_too_few_slots_fails_and_the_session_goes_on(fewest: Optional[int]) -> None:
    session = Played(1, fewest=fewest)
    session.start(0)
    future = session.scale(3)
    later = session.submit(len)
    session.sent()
    session.start(1)
    assert session.sent() == {}
    session.now += PATIENCE_S
    assert session.sent() == {0: len, 1: len}
    with pytest.raises(RuntimeError, match=r"^the session has 2 of the 3 workers for which scale\(\) has waited 30 s"):
        future.result(0)
    assert session.sizes == ([3, 2] if fewest is None else [3]) and not later.done()


@pytest.mark.parametrize("fewest", [None, 1])
def test_a_change_that_waits_for_workers_can_be_interrupted(fewest: Optional[int]) -> None:
    session = Played(2, fewest=fewest)
    session.start(0, 1)
    future = session.scale(4)
    session.submit(len)
    session.sent()
    session.start(2)
    assert session.calls.interrupt() == []
    with pytest.raises(RuntimeError, match=r"^scale\(\) was interrupted when the session had 3 of the 4 workers$"):
        future.result(0)
    assert session.sent() == dict.fromkeys(range(3), len) and session.sizes == [4, 3]


def test_a_change_that_was_cancelled_changes_nothing() -> None:
    session = Played(1)
    assert session.scale(5).cancel()
    session.submit(len)
    session.start(0)
    assert session.sent() == {0: len} and session.sizes == []


def test_a_change_that_was_cancelled_does_not_limit_the_ranks_of_later_calls() -> None:
    session = Played(3)
    session.start(0, 1, 2)
    session.submit(len)
    session.sent()
    first, second = session.scale(2), session.scale(1)
    assert session.calls.last_wanted == 1
    second.cancel()
    assert session.calls.last_wanted == 2
    first.cancel()
    assert session.calls.last_wanted == 3
    session.returned(0, 1, 2)
    session.submit(max, ranks=[2])
    assert session.sent() == {2: max} and session.calls.last_wanted == 3


def test_a_worker_that_is_told_to_leave_before_its_start_is_reported_leaves() -> None:
    session = Played(3)
    future = session.submit(len)
    session.retire(1, 2)
    assert session.sent() == {} and session.sizes == [2, 1], "no worker is to take its place"
    session.start(0, 1)
    session.end(2, "could not be started: the host was lost")
    assert session.sent() == {0: len} and session.left == [1] and session.ranks() == [0]
    session.end(1, "exited with code 0")
    session.returned(0)
    session.sent()
    assert future.result(0) == [None] and session.calls.reason_to_end(session.now) == ""


def test_a_call_does_not_begin_without_workers() -> None:
    session = Played(1)
    session.start(0)
    future = session.submit(len)
    session.sent()
    session.retire(0)
    session.returned(0, value=5)
    session.submit(max)
    assert session.sent() == {} and session.left == [0] and session.sizes == [0]
    assert future.result(0) == [5] and session.calls.reason_to_end(session.now) == ""
    session.end(0, "exited with code 0")
    assert session.calls.reason_to_end(session.now).startswith("all of its workers were told to leave")
    other = Played(2, fewest=1)
    other.start(0, 1)
    other.retire(0, 1)
    other.submit(len)
    other.now += PATIENCE_S
    assert other.sent() == {} and other.calls.reason_to_end(other.now) == ""


def test_a_drained_worker_finishes_its_call_and_leaves() -> None:
    session = Played(2)
    session.start(0, 1)
    future = session.submit(len)
    session.sent()
    session.retire(0)
    assert session.sent() == {} and session.sizes == [1], "no worker is to take its place"
    session.returned(0, 1, value=5)
    session.sent()
    assert future.result(0) == [5, 5] and session.left == [0]
    session.submit(max)
    assert session.sent() == {1: max} and session.ranks() == [1]


def test_ranks_that_have_left_are_refused() -> None:
    session = Played(2)
    future = session.submit(len, ranks=[1])
    session.start(0)
    session.start(1)
    session.retire(1)
    assert session.sent() == {}
    with pytest.raises(ValueError, match=r"ranks \[1\] are not all ranks of this session, which has 0 to 0"):
        future.result(0)


def test_a_value_is_sent_once_per_host_and_to_workers_that_come_later() -> None:
    session = Played(3, fewest=1)
    session.start(0, 1, host="a")
    session.start(2, host="b")
    reference = values.Reference()
    session.calls.put(reference, b"content")
    session.submit(len)
    assert session.sent() == {0: values.keep, 2: values.keep}
    assert session.arguments[0] == (reference.key, b"content")
    session.returned(0, value=(1000, 5))
    session.returned(2, value=(1002, 6))
    assert session.sent() == {1: values.load}
    assert session.arguments[1] == (reference.key, {"a": (1000, 5), "b": (1002, 6)})
    session.returned(1, value=False)
    assert session.sent() == {1: values.keep}, "the system does not let it read"
    session.returned(1, value=(1001, 7))
    assert session.sent() == {0: values.release, 1: values.release, 2: values.release}
    session.returned(0, 1, 2)
    assert session.sent() == dict.fromkeys(range(3), len)
    session.returned(1, 2)
    session.end(0)
    session.start(3)
    session.submit(max)
    assert session.sent() == {3: values.keep}
    session.returned(3, value=(1003, 5))
    assert session.sent() == {3: values.release}
    session.returned(3)
    assert session.sent() == dict.fromkeys((1, 2, 3), max)


def test_a_value_without_a_reference_is_sent_no_more() -> None:
    session = Played(1)
    session.calls.put(values.Reference(), b"content")
    session.submit(len)
    session.start(0)
    assert session.sent() == {0: len}


def test_a_value_that_cannot_be_loaded_fails_one_call() -> None:
    session = Played(1)
    session.start(0)
    reference = values.Reference()
    session.calls.put(reference, b"content")
    first = session.submit(len)
    session.submit(max)
    assert session.sent() == {0: values.keep}
    session.raised(0, "no module named b")
    assert session.sent() == {0: max}
    with pytest.raises(RuntimeError, match="no module named b"):
        first.result(0)


def test_a_worker_that_dies_while_a_value_is_sent_does_not_fail_the_call() -> None:
    session = Played(2, fewest=1)
    session.start(0, 1)
    reference = values.Reference()
    session.calls.put(reference, b"content")
    future = session.submit(len)
    assert session.sent() == {0: values.keep}
    session.end(0)
    assert session.sent() == {}
    session.start(2)
    assert session.sent() == {1: values.keep}
    assert not future.done()


def test_only_workers_that_run_the_call_are_interrupted() -> None:
    session = Played(3)
    session.start(0, 1, 2)
    assert session.calls.interrupt() == []
    session.submit(len, ranks=[0, 2])
    session.sent()
    session.returned(0)
    assert [slot for slot, _ in session.calls.interrupt()] == [2]


def test_all_workers_leave_at_the_end() -> None:
    session = Played(2)
    session.start(0, 1)
    assert session.calls.are_all_ready
    leaving = [(slot, messages.message(messages.LEAVE)) for slot in (0, 1)]
    assert session.calls.leave() == [(messages.EVENT_SLOT, messages.WORKERS.pack(0)), *leaving]
    session.end(0, "exited with code 0")
    assert session.calls.reason_to_end(session.now) == "" and session.ranks() == []


def test_the_end_of_the_session_fails_all_calls() -> None:
    session = Played(1)
    session.start(0)
    futures = [session.submit(len), session.scale(2), session.submit(max)]
    session.sent()
    session.calls.fail("it has ended")
    for future in futures:
        with pytest.raises(RuntimeError, match="it has ended"):
            future.result(0)
