"""``farandole.session()``: workers that stay alive between calls."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any, Iterator, List

import farandole
import pytest
from farandole.runner import program
from farandole.runner.functions import values
from launched import DEADLINE_S, assert_gone, is_running, needs_launcher, wait_until
from test_launch_functions import nothing_is_left

__all__ = ["nothing_is_left"]

pytestmark = needs_launcher
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "sessions.md"


@pytest.fixture
def workers() -> Iterator[Any]:
    with farandole.session(3, initialize=False) as session:
        yield session


def read_rank() -> int:
    return int(os.environ["HOROVOD_RANK"])


def release_reader(pipe: str) -> None:
    """Lets a process that opens the named pipe for reading go on, once it does."""

    def opens() -> bool:
        try:
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        except OSError as problem:
            assert problem.errno == errno.ENXIO  # nobody reads yet
            return False
        return True

    wait_until(opens, f"a process reads {pipe}")


read_rank.__module__ = "__main__"  # it is sent with its code


def test_results_come_in_the_order_of_the_ranks(workers: Any) -> None:
    assert workers.run(lambda base: base + int(os.environ["HOROVOD_RANK"]), 10) == [10, 11, 12]
    assert workers.run(read_rank, ranks=[2, 0]) == [2, 0]


def test_names_in_the_state_stay_for_later_calls(workers: Any) -> None:
    def remember() -> None:
        farandole.session.state.model = [int(os.environ["HOROVOD_RANK"])]

    workers.run(remember)
    assert workers.run(lambda: workers.state.model) == [[0], [1], [2]]
    assert not hasattr(farandole.session.state, "model")


def test_workers_are_listed(workers: Any) -> None:
    processes = workers.run(os.getpid)
    assert [(each.rank, each.host, each.process) for each in workers.workers] == [
        (rank, "localhost", process) for rank, process in enumerate(processes)
    ]


def test_a_future_can_be_awaited(workers: Any) -> None:
    async def await_two() -> List[Any]:
        first, second = workers.submit(read_rank), workers.submit(lambda: 5, ranks=[1])
        return [await second, await first]

    assert asyncio.run(await_two()) == [[5], [0, 1, 2]]


def test_a_waiting_call_can_be_cancelled(workers: Any, tmp_path: Path) -> None:
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    running = workers.submit(lambda: open(pipe).close(), ranks=[0])
    waiting = workers.submit(read_rank)
    assert waiting.cancel()
    release_reader(pipe)
    assert running.result(DEADLINE_S) == [None]
    assert workers.run(read_rank) == [0, 1, 2]


def test_an_exception_names_all_ranks_and_leaves_the_workers(workers: Any) -> None:
    def fail() -> None:
        if int(os.environ["HOROVOD_RANK"]) > 0:
            raise KeyError(os.environ["HOROVOD_RANK"])

    processes = workers.run(os.getpid)
    with pytest.raises(RuntimeError) as raised:
        workers.run(fail)
    text = str(raised.value)
    assert text.startswith(
        "Rank 1 on host localhost raised KeyError: '1'\nAlso failed: rank 2 on host localhost raised KeyError: '2'\n"
    )
    assert 'raise KeyError(os.environ["HOROVOD_RANK"])' in text
    with pytest.raises(RuntimeError, match="Rank 0 on host localhost raised SystemExit: 3"):
        workers.run(lambda: sys.exit(3), ranks=[0])
    assert workers.run(os.getpid) == processes


def test_a_result_that_cannot_be_pickled_leaves_the_workers(workers: Any) -> None:
    with pytest.raises(RuntimeError, match=r"raised CannotPickle: the result \(_thread.lock\) cannot be pickled"):
        workers.run(threading.Lock)
    assert workers.run(lambda: 1) == [1, 1, 1]


def test_a_function_that_cannot_be_loaded_leaves_the_workers(workers: Any) -> None:
    """Its pieces that were not read do not disturb the next call."""

    class Unreadable:
        def __reduce__(self) -> Any:
            return (int, ("no number",))

    with pytest.raises(RuntimeError, match="raised ValueError: invalid literal for int"):
        workers.run(print, Unreadable(), bytes(20_000_000))
    assert workers.run(len, bytes(20_000_000)) == [20_000_000] * 3


def test_a_value_is_sent_once_per_host(workers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []
    send = workers._launcher.send

    def count(slot: int, content: bytes) -> None:
        sent.append(len(content))
        send(slot, content)

    with monkeypatch.context() as patched:
        patched.setattr(workers._launcher, "send", count)
        reference = workers.put({"weights": bytes(3_000_000)})
    assert 3_000_000 < sum(sent) < 3_100_000
    assert workers.run(lambda value: len(value["weights"]), reference) == [3_000_000] * 3
    assert workers.run(lambda: id(reference) == id(reference) and len(reference)) == [1] * 3
    assert workers.run(lambda: len(values._descriptors)) == [0] * 3
    with pytest.raises(RuntimeError, match="this value was put on the workers of another session"):
        values.value_of(reference.key)


def test_output_goes_to_the_stream_of_the_caller_that_waits(workers: Any) -> None:
    writers = set()

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            writers.add(threading.current_thread())
            return super().write(text)

    with contextlib.redirect_stdout(Stream()) as stream:
        workers.run(print, "text")
        while stream.getvalue().count("<stdout>:text\n") < 3:  # output may come after the result
            workers.run(read_rank)
    assert writers <= {threading.current_thread(), *threading.enumerate()}
    assert sorted(stream.getvalue().splitlines()) == [f"[{rank}]<stdout>:text" for rank in range(3)]


def test_output_is_written_after_several_threads_have_waited(workers: Any, tmp_path: Path) -> None:
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    first = threading.Thread(target=workers.run, args=(lambda: open(pipe).close(),), kwargs={"ranks": [0]})
    first.start()
    wait_until(lambda: len(workers._sinks) == 1, "the first call waits")
    second = threading.Thread(target=workers.run, args=(lambda: open(pipe).close(),), kwargs={"ranks": [0]})
    second.start()
    wait_until(lambda: len(workers._sinks) == 2, "the second call waits")
    for thread in (first, second):
        release_reader(pipe)
        thread.join(DEADLINE_S)
    with contextlib.redirect_stdout(io.StringIO()) as stream:
        workers.submit(print, "text").result(DEADLINE_S)
        wait_until(lambda: stream.getvalue().count("<stdout>:text\n") == 3, "the output is there")


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_the_call_and_leaves_the_workers(workers: Any, tmp_path: Path) -> None:
    folder = str(tmp_path)

    def wait() -> None:
        open(f"{folder}/{os.environ['HOROVOD_RANK']}", "w").close()
        while True:
            signal.pause()

    processes = workers.run(os.getpid)

    def interrupt() -> None:
        wait_until(lambda: {"0", "1", "2"} <= set(os.listdir(folder)), "all ranks run the function")
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        workers.run(wait)
    thread.join()
    assert workers.run(os.getpid) == processes


@pytest.mark.slow
def test_an_interrupt_may_come_at_any_time(workers: Any) -> None:
    """Most of these come before the function begins."""

    def spin() -> None:
        while True:
            pass

    processes = workers.run(os.getpid)
    workers.interrupt()
    for _ in range(20):
        future = workers.submit(spin, ranks=[1])
        wait_until(future.running, "the call has been sent")
        workers.interrupt()
        with pytest.raises(RuntimeError, match="^Rank 1 on host localhost raised KeyboardInterrupt\n"):
            future.result(DEADLINE_S)
        assert workers.run(os.getpid) == processes


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_the_wait_for_workers_and_leaves_the_others() -> None:
    with farandole.session(1, hosts="localhost:1", max_np=2, initialize=False) as workers:
        processes = workers.run(os.getpid)

        def interrupt() -> None:
            wait_until(lambda: workers._calls.wanted == 2, "the launcher is asked for another worker")
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            workers.scale(2)
        thread.join()
        assert workers.run(os.getpid) == processes


@pytest.mark.usefixtures("interruptible")
def test_a_second_interrupt_ends_the_session(workers: Any, tmp_path: Path) -> None:
    folder = str(tmp_path)

    def wait() -> None:
        name = os.environ["HOROVOD_RANK"]
        while True:
            try:
                open(f"{folder}/{name}", "w").close()
                signal.pause()
            except KeyboardInterrupt:
                name = "interrupted"

    processes = workers.run(os.getpid)

    def interrupt() -> None:
        for names in ({"0", "1", "2"}, {"interrupted"}):
            wait_until(lambda names=names: names <= set(os.listdir(folder)), f"{names} are there")
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        workers.run(wait)
    thread.join()
    assert_gone(processes)
    with pytest.raises(RuntimeError, match="the session has ended and takes no calls: it was closed"):
        workers.run(read_rank)


def test_a_worker_that_dies_ends_the_session_with_the_reason(workers: Any) -> None:
    processes = workers.run(os.getpid)

    def die() -> None:
        if os.environ["HOROVOD_RANK"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()

    waiting = workers.submit(die), workers.submit(read_rank)
    for future in waiting:
        with pytest.raises(
            RuntimeError, match="the session has ended: rank 1 on host localhost was killed by signal 9"
        ):
            future.result(DEADLINE_S)
    assert_gone(processes)
    with pytest.raises(RuntimeError, match="takes no calls: rank 1 on host localhost was killed"):
        workers.submit(read_rank)


def test_a_closed_session_takes_no_calls(workers: Any) -> None:
    processes = workers.run(os.getpid)
    workers.close()
    workers.close()
    workers.interrupt()
    for call in (lambda: workers.run(read_rank), lambda: workers.put(1), lambda: workers.scale(2)):
        with pytest.raises(RuntimeError, match="the session has ended and takes no calls: it was closed"):
            call()
    assert workers.workers == []
    assert_gone(processes)


def test_close_ends_a_call_that_runs(workers: Any) -> None:
    future = workers.submit(signal.pause)
    workers.close()
    with pytest.raises(RuntimeError, match="the session has ended: it was closed"):
        future.result(DEADLINE_S)


def test_a_forked_child_cannot_use_the_session(workers: Any) -> None:
    assert workers.run(read_rank) == [0, 1, 2]
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            workers.run(read_rank)
        except RuntimeError as problem:
            os.write(writable, str(problem).encode())
        workers.close()
        os._exit(0)
    os.close(writable)
    with open(readable) as file:
        assert f"this session belongs to process {os.getpid()}, and process {child} was forked from it" in file.read()
    os.waitpid(child, 0)
    assert workers.run(read_rank) == [0, 1, 2]


def test_two_sessions_run_at_once(workers: Any) -> None:
    with farandole.session(2, initialize=False) as other:
        futures = [workers.submit(read_rank), other.submit(read_rank)]
        assert [each.result(DEADLINE_S) for each in futures] == [[0, 1, 2], [0, 1]]
        other.scale(1)
        assert (len(other.workers), len(workers.workers)) == (1, 3)


def test_workers_that_wait_for_one_that_has_failed_are_interrupted(workers: Any) -> None:
    def function() -> None:
        if os.environ["HOROVOD_RANK"] == "1":
            raise KeyError("labels")
        while True:
            signal.pause()

    processes = workers.run(os.getpid)
    with pytest.raises(RuntimeError, match="Rank 1 on host localhost raised KeyError: 'labels'\\nAlso failed: rank 0 "):
        workers.run(function)
    assert workers.run(os.getpid) == processes


def test_wrong_arguments_are_refused(workers: Any) -> None:
    with pytest.raises(ValueError, match=r"ranks \[3\] are not all ranks of this session, which has 0 to 2"):
        workers.submit(read_rank, ranks=[3])
    with pytest.raises(ValueError, match=r"ranks \[0, 0\] name a rank twice: a call runs once on each of its ranks"):
        workers.submit(read_rank, ranks=[0, 0])
    for number in (0, 65537):
        with pytest.raises(
            ValueError, match=rf"scale\({number}\): the number of workers of this session must be 1 to 65536"
        ):
            workers.scale(number)
    assert workers.run(read_rank) == [0, 1, 2]
    with pytest.raises(ValueError, match=r"session\(0\): the number of workers must be 1 or more"):
        farandole.session(0)
    with pytest.raises(TypeError, match=r"session\(\) has no option colour"):
        farandole.session(2, colour="red")
    with pytest.raises(TypeError, match=r"session\(\) has no option min_num_proc; options are np, min_np, max_np"):
        farandole.session(2, min_num_proc=1)
    with (
        farandole.session(1, hosts="localhost:2", min_np=1, initialize=False) as limited,
        pytest.raises(ValueError, match=r"scale\(3\): the number of workers of this session must be 1 to 2"),
    ):
        limited.scale(3)
    with (
        farandole.session(2, min_np=3, initialize=False) as refused,
        pytest.raises(RuntimeError, match="--min-np 3 is out of range: 1 to the 2 of -np"),
    ):
        refused.run(read_rank)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_process_is_left_when_the_interpreter_ends(tmp_path: Path, number: int) -> None:
    """SIGKILL ends it without its handlers, while a child process that it has forked lives on. SIGINT raises
    KeyboardInterrupt outside of a call."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import os, signal, sys
        import farandole
        from farandole.runner import program
        path = sys.argv[1]
        program.path_of_launcher = lambda: path
        session = farandole.session(2, initialize=False)
        processes = session.run(os.getpid)
        child = os.fork()
        if child == 0:
            signal.pause()
        print(child, *processes, flush=True)
        signal.pause()
        """)
    )
    process = subprocess.Popen(
        [sys.executable, str(script), program.path_of_launcher()],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    child, *processes = (int(each) for each in process.stdout.readline().split())
    assert len(processes) == 2
    process.send_signal(number)
    process.wait(DEADLINE_S)
    process.stdout.close()
    try:
        assert_gone(processes)
        assert is_running(child)
    finally:
        os.kill(child, signal.SIGKILL)


def test_hvd_is_initialised_and_works_after_a_failure() -> None:
    def add(failing_rank: int) -> float:
        import farandole.numpy as hvd
        import numpy

        if hvd.rank() == failing_rank:
            raise KeyError("labels")
        return float(hvd.allreduce(numpy.full(4, hvd.rank()), op=hvd.Sum)[0])

    with farandole.session(3) as workers:
        assert workers.run(add, -1) == [3, 3, 3]
        with pytest.raises(RuntimeError, match="^Rank 2 on host localhost raised KeyError: 'labels'"):
            workers.run(add, 2)
        assert workers.run(add, -1) == [3, 3, 3]


def test_the_examples_of_the_guide_print_what_it_says(tmp_path: Path) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.S))
    script = tmp_path / "guide.py"
    script.write_text(code)
    ran = subprocess.run([sys.executable, str(script)], check=False, capture_output=True, text=True, timeout=DEADLINE_S)
    assert ran.returncode == 0, ran.stderr
    expected = re.findall(r"print\(.*\)  # ([^…\n]+)", code)
    assert len(expected) == code.count("print(") == 7
    lines = iter(ran.stdout.splitlines())
    for text in expected:
        assert any(line.startswith(text) for line in lines), f"{text} is missing or comes too early in:\n{ran.stdout}"
