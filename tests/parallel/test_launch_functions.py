"""``horovod.run()``: jobs with the real launcher, and rare answers of launchers with a small one."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import horovod
import pytest
from farandole.runner import launch, program
from farandole.runner.functions import launcher
from horovod.runner.common.util.timeout import TimeoutException
from launched import DEADLINE_S, assert_gone, is_running, wait_for

FAKE = Path(__file__).with_name("fake_launcher.py")


def write_fake(folder: Path) -> str:
    """A program that runs the small launcher."""
    path = folder / "farandole"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "$@"\n')
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Jobs are started by the small launcher."""
    path = write_fake(tmp_path)
    monkeypatch.setattr(program, "path_of_launcher", lambda: path)
    return path


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """After each test, this process has the threads, children and descriptors that it had before."""
    before = resources()
    yield
    if not wait_for(lambda: resources() == before, DEADLINE_S):
        assert resources() == before


def resources() -> Dict[str, Any]:
    gc.collect()
    task = f"/proc/self/task/{threading.get_native_id()}/children"
    descriptors = {}
    for each in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            descriptors[each] = os.readlink(f"/proc/self/fd/{each}")
    own = {each: target for each, target in descriptors.items() if not target.endswith("/fd")}
    return {"threads": threading.enumerate(), "children": Path(task).read_text().split(), "descriptors": own}


def rank() -> int:
    return int(os.environ["HOROVOD_RANK"])


def by_value(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function is pickled with its code: workers do not import this file."""
    function.__module__ = "__main__"
    return function


def fail_with_labels() -> None:
    raise KeyError("labels")


class TestJobs:
    def test_results_come_in_the_order_of_the_ranks(self) -> None:
        def function(base: int, factor: int = 1) -> List[int]:
            return [base + factor * int(os.environ["HOROVOD_RANK"])]

        assert horovod.run(function, (10,), {"factor": 3}, num_proc=3) == [[10], [13], [16]]

    def test_functions_and_results_of_many_pieces_arrive_whole(self) -> None:
        sent = os.urandom(1000) * 40_000
        assert horovod.run(lambda content: content[::-1], (sent,), num_proc=2) == [sent[::-1]] * 2

    def test_a_function_of_a_module_of_the_caller_is_imported_by_the_workers(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = tmp_path / "modules"
        folder.mkdir()
        (folder / "own_module.py").write_text("def name_of_file(): return __file__\n")
        monkeypatch.syspath_prepend(str(folder))
        import own_module

        assert horovod.run(own_module.name_of_file, num_proc=2) == [str(folder / "own_module.py")] * 2
        del sys.modules["own_module"]

    def test_the_first_exception_is_raised_with_rank_host_and_remote_traceback(self) -> None:
        def train() -> None:
            if os.environ["HOROVOD_RANK"] == "1":
                raise KeyError("labels of rank 1")
            signal.pause()

        with pytest.raises(RuntimeError) as raised:
            horovod.run(train, num_proc=2)
        text = str(raised.value)
        assert text.startswith("Horovod detected that one or more processes exited with non-zero status")
        assert "Process name: 1\nExit code: 1" in text
        assert "Rank 1 on host localhost raised KeyError: 'labels of rank 1'" in text
        assert 'raise KeyError("labels of rank 1")' in text
        assert "worker.py" not in text

    def test_a_worker_that_is_killed_is_named(self) -> None:
        def function() -> None:
            if os.environ["HOROVOD_RANK"] == "1":
                os.kill(os.getpid(), signal.SIGKILL)
            signal.pause()

        with pytest.raises(RuntimeError, match=r"Process name: 1\nExit code: 137[^$]*ank 1 on host localhost was kill"):
            horovod.run(function, num_proc=2)

    def test_an_exit_code_that_the_function_asks_for_is_reported(self) -> None:
        with pytest.raises(RuntimeError, match=r"Process name: 0\nExit code: 7(.|\n)*raised SystemExit: 7"):
            horovod.run(lambda: sys.exit(7), num_proc=1)

    def test_a_function_that_exits_with_code_0_has_no_result(self) -> None:
        with pytest.raises(RuntimeError, match="ank 0 on host localhost raised SystemExit: 0"):
            horovod.run(lambda: sys.exit(0), num_proc=1)

    def test_a_result_that_cannot_be_pickled_is_named_with_its_rank(self) -> None:
        def function() -> Any:
            return {"model": [1, threading.Lock()]}

        with pytest.raises(RuntimeError) as raised:
            horovod.run(function, num_proc=1)
        assert (
            "Rank 0 on host localhost raised CannotPickle: the result['model'][1] (_thread.lock) cannot be pickled: "
            "TypeError: cannot pickle '_thread.lock' object"
        ) in str(raised.value)

    def test_a_module_that_the_worker_does_not_have_is_named_with_rank_and_host(self, tmp_path: Path) -> None:
        folder = tmp_path / "modules"
        folder.mkdir()
        (folder / "driver_only.py").write_text("def function(): return 1\n")
        sys.path.insert(0, str(folder))
        try:
            import driver_only
        finally:
            sys.path.remove(str(folder))
            del sys.modules["driver_only"]
        sys.modules["driver_only"] = driver_only
        try:
            with pytest.raises(
                RuntimeError,
                match="ank 0 on host localhost raised CannotLoad: the function needs the "
                "module driver_only, which is missing here",
            ):
                horovod.run(driver_only.function, num_proc=1)
        finally:
            del sys.modules["driver_only"]

    def test_an_elastic_job_that_gets_too_few_slots_in_time_raises_the_exception_for_timeouts(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        script = tmp_path / "hosts"
        script.write_text("#!/bin/sh\necho localhost:1\n")
        script.chmod(0o755)
        monkeypatch.setenv("HOROVOD_ELASTIC_TIMEOUT", "1")
        with pytest.raises(TimeoutException, match=r"waited 1 s \(--elastic-timeout\) for more slots"):
            horovod.run(print, num_proc=2, min_num_proc=2, host_discovery_script=str(script))

    def test_output_goes_to_streams_that_have_been_replaced(self) -> None:
        def function() -> None:
            print("to stdout")
            print("to stderr", file=sys.stderr)

        stdout, stderr = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            horovod.run(function, num_proc=2, verbose=2)
        lines = sorted(stdout.getvalue().splitlines())
        assert [each for each in lines if ">:" in each] == ["[0]<stdout>:to stdout", "[1]<stdout>:to stdout"]
        assert lines.count("Filtering local host names.") == 1  # of the launcher, which says what it does
        assert {"[0]<stderr>:to stderr", "[1]<stderr>:to stderr"} <= set(stderr.getvalue().splitlines())

    def test_a_closed_stdout_loses_output_and_not_the_result(self, capsys: pytest.CaptureFixture[str]) -> None:
        closed = io.StringIO()
        closed.close()
        with contextlib.redirect_stdout(closed):
            assert horovod.run(lambda: print("text"), num_proc=2) == [None, None]
        assert capsys.readouterr().err.count("the rest of the job's output is lost") == 1

    @pytest.mark.usefixtures("interruptible")
    def test_an_interrupt_ends_the_workers(self, tmp_path: Path) -> None:
        process_file = tmp_path / "process"
        os.mkfifo(process_file)

        def function(path: str) -> None:
            with open(path, "w") as file:
                file.write(str(os.getpid()))
            signal.pause()

        found: List[int] = []

        def interrupt() -> None:
            found.append(int(process_file.read_text()))
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            horovod.run(function, (str(process_file),), num_proc=1)
        thread.join()
        assert_gone(found)

    @pytest.mark.slow
    def test_a_signal_that_the_caller_ignores_ends_neither_the_job_nor_its_workers(self) -> None:
        """As under nohup, when the terminal is closed, which signals all processes."""

        def function(caller: int) -> Any:
            for each in (caller, os.getppid(), os.getpid()):
                os.kill(each, signal.SIGHUP)
            return signal.getsignal(signal.SIGHUP)

        inherited = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            assert horovod.run(function, (os.getpid(),), num_proc=2) == [signal.SIG_IGN] * 2
        finally:
            signal.signal(signal.SIGHUP, inherited)

    def test_the_workers_end_when_the_caller_is_killed(self, tmp_path: Path) -> None:
        script = tmp_path / "script.py"
        script.write_text(
            textwrap.dedent("""
            import os, signal
            import horovod
            def function():
                print("pid", os.getpid())
                signal.pause()
            horovod.run(function, num_proc=2)
            """)
        )
        process = subprocess.Popen(
            [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert process.stdout is not None
        workers = [int(process.stdout.readline().split()[-1]) for _ in range(2)]
        process.kill()
        process.wait(DEADLINE_S)
        process.stdout.close()
        assert_gone(workers)

    def test_a_forked_child_does_not_keep_the_job_alive(self) -> None:
        """The child holds copies of all descriptors, and the launcher must still see the end of its parent's."""
        readable, writable = os.pipe()
        children: List[int] = []

        def fork_once(text: str) -> int:
            if not children:
                child = os.fork()
                if child == 0:
                    os.close(writable)
                    os.read(readable, 1)  # until the parent closes its end
                    os._exit(0)
                children.append(child)
            raise KeyboardInterrupt

        class Forking(io.StringIO):
            write = staticmethod(fork_once)  # type: ignore[assignment]

        try:
            with pytest.raises(KeyboardInterrupt), contextlib.redirect_stdout(Forking()):
                horovod.run(lambda: (print("text"), signal.pause()), num_proc=1)
            assert children and is_running(children[0])
        finally:
            os.close(writable)
            os.close(readable)
            os.waitpid(children[0], 0)

    def test_run_works_in_a_thread(self) -> None:
        results: List[Any] = []
        thread = threading.Thread(target=lambda: results.append(horovod.run(lambda: 5, num_proc=2)))
        thread.start()
        thread.join()
        assert results == [[5, 5]]

    def test_run_takes_an_attribute_bag_of_third_parties(self) -> None:
        bag = horovod.runner._HorovodArgs()
        bag.num_proc = 2
        bag.run_func = lambda: int(os.environ["HOROVOD_RANK"]) * 2
        assert launch._run(bag) == [0, 2]


def options_seen(capsys: pytest.CaptureFixture[str], **options: Any) -> Dict[str, str]:
    """The options that the launcher got, and prints as its first line."""
    import json

    horovod.run(lambda: None, verbose=2, **options)
    return json.loads(capsys.readouterr().out.splitlines()[0])  # type: ignore[no-any-return]


@pytest.mark.usefixtures("fake")
def test_arguments_become_options_of_the_launcher(capsys: pytest.CaptureFixture[str]) -> None:
    seen = options_seen(
        capsys, num_proc=2, hosts="a:1,b:1", start_timeout=50, ssh_port=22, ssh_identity_file="key",
        disable_cache=True, output_filename="out", use_gloo=True, network_interfaces=["lo", "eth0"],
    )  # fmt: skip
    del seen["--call-descriptor"]
    assert seen == {
        "--num-proc": "2", "--hosts": "a:1,b:1", "--start-timeout": "50", "--ssh-port": "22",
        "--ssh-identity-file": "key", "--disable-cache": "", "--output-filename": "out", "--gloo": "",
        "--network-interfaces": "eth0,lo", "--verbose": "", "--remote-hosts": "a,b",
    }  # fmt: skip


@pytest.mark.usefixtures("fake")
def test_arguments_of_elastic_jobs_become_options(capsys: pytest.CaptureFixture[str]) -> None:
    seen = options_seen(
        capsys, num_proc=2, min_num_proc=1, max_num_proc=4, slots=2, reset_limit=3, cooldown_range=(1, 5),
        host_discovery_script="./hosts.sh",
    )  # fmt: skip
    del seen["--call-descriptor"]
    assert seen == {
        "--num-proc": "2", "--min-np": "1", "--max-np": "4", "--slots-per-host": "2", "--reset-limit": "3",
        "--blacklist-cooldown-range": "1 5", "--host-discovery-script": "./hosts.sh", "--verbose": "",
    }  # fmt: skip


@pytest.mark.usefixtures("fake")
def test_old_names_of_arguments_warn(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(DeprecationWarning) as warned:
        seen = options_seen(capsys, np=2, network_interface="lo,eth0", min_np=1, max_np=3, hosts="localhost:3")
    assert [str(each.message).partition(" ")[0] for each in warned] == ["np", "min_np", "max_np", "network_interface"]
    assert {each.filename for each in warned} == {__file__}
    assert [seen[each] for each in ("--num-proc", "--min-np", "--max-np", "--network-interfaces")] == [
        *("2", "1", "3", "eth0,lo")
    ]


def test_arguments_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="hosts and hostfile exclude each other"):
        horovod.run(print, hosts="a:1", hostfile="file")
    with pytest.raises(ValueError, match="use_gloo and use_mpi exclude each other"):
        horovod.run(print, use_gloo=True, use_mpi=True)
    with pytest.raises(TypeError, match="func is a function"):
        horovod.run("train.py")  # type: ignore[arg-type]


def test_an_argument_that_cannot_be_pickled_is_named() -> None:
    with pytest.raises(pickle.PicklingError, match=r"\(func, args, kwargs\)\[1\]\[0\]\['a'\] \(_thread.lock\)"):
        horovod.run(print, ({"a": threading.Lock()},))


def test_a_variable_that_cannot_be_pickled_is_named() -> None:
    lock = threading.Lock()
    with pytest.raises(pickle.PicklingError, match=r"its variable lock \(_thread.lock\) cannot be pickled"):
        horovod.run(lambda: lock)


@pytest.mark.usefixtures("fake")
def test_options_that_the_launcher_refuses_are_a_value_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_EXIT", "2")
    monkeypatch.setenv(
        "FAKE_PRINTS", "usage: farandole run [-h]\nfarandole: error: -np 4 needs more slots than the 2 of -H a:2"
    )
    with pytest.raises(ValueError, match="^farandole: error: -np 4 needs more slots"):
        horovod.run(print)


@pytest.mark.usefixtures("fake")
def test_a_launcher_that_fails_before_any_worker_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_EXIT", "1")
    monkeypatch.setenv("FAKE_PRINTS", "could not connect to some hosts via ssh")
    with pytest.raises(RuntimeError, match="^the launcher ended with exit code 1\ncould not connect to some hosts"):
        horovod.run(print)
    with pytest.raises(RuntimeError, match="^mpirun failed with exit code 1\n"):
        horovod.run(print, use_mpi=True)


@pytest.mark.usefixtures("fake")
def test_a_launcher_that_waits_too_long_for_hosts_raises_the_exception_for_timeouts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FAKE_TIMES_OUT", "1")
    monkeypatch.setenv("FAKE_EXIT", "1")
    monkeypatch.setenv("FAKE_PRINTS", "host b: its agent has not connected within start timeout")
    with pytest.raises(TimeoutException, match="^the launcher ended with exit code 1\nhost b: its agent has not"):
        horovod.run(print)
    # A worker that fails is the cause, also where the job waited for its replacement.
    monkeypatch.delenv("FAKE_EXIT")
    with pytest.raises(RuntimeError, match="raised KeyError: 'labels'"):
        horovod.run(by_value(fail_with_labels))


@pytest.mark.usefixtures("fake")
def test_the_host_of_the_worker_that_failed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_HOSTS", "a,b")

    def function() -> None:
        if os.environ["HOROVOD_RANK"] == "1":
            raise ValueError("no data")
        signal.pause()

    with pytest.raises(RuntimeError, match="Rank 1 on host b raised ValueError: no data"):
        horovod.run(function, num_proc=2)


@pytest.mark.usefixtures("fake")
def test_an_elastic_job_returns_results_though_a_worker_was_replaced(tmp_path: Path) -> None:
    def function(folder: str) -> int:
        place = int(os.environ["HOROVOD_RANK"])
        mark = os.path.join(folder, "was here")
        if place == 1 and not os.path.exists(mark):
            open(mark, "w").close()
            raise OSError("disk")
        return place

    assert horovod.run(function, (str(tmp_path),), num_proc=3, min_num_proc=2, reset_limit=1, hosts="localhost:3") == [
        0,
        1,
    ]


@pytest.mark.usefixtures("fake")
def test_an_elastic_job_that_fails_names_host_and_local_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_HOSTS", "a,b")

    def function() -> None:
        if os.environ["HOROVOD_RANK"] == "1":
            raise OSError("disk")
        signal.pause()

    with pytest.raises(RuntimeError, match=r"Process name: b\[1\](.|\n)*Rank 1 on host b raised OSError: disk"):
        horovod.run(function, num_proc=2, min_num_proc=2, reset_limit=1, hosts="a:1,b:1")


@pytest.mark.usefixtures("fake")
def test_another_interpreter_is_used_or_refused(tmp_path: Path) -> None:
    """A worker of another version of Python cannot read the function."""
    other = tmp_path / "python"
    other.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -c "import sys; sys.version_info = (3, 4, 0); '
        'from farandole.runner import worker; worker.main()"\n'
    )
    other.chmod(0o755)
    with pytest.raises(RuntimeError, match="raised CannotLoad: the function comes from Python 3.*runs Python 3.4"):
        horovod.run(print, executable=str(other))


def test_a_launcher_that_does_not_exist_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "path_of_launcher", lambda: "/nonexistent/farandole")
    with pytest.raises(FileNotFoundError, match="/nonexistent/farandole"):
        horovod.run(print)


@pytest.mark.usefixtures("fake")
def test_a_job_that_ignores_its_end_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(launcher, "CLOSING_S", 0.0)
    with pytest.raises(KeyboardInterrupt), contextlib.redirect_stdout(Interrupting()):
        horovod.run(lambda: (print("text"), time.sleep(0)), num_proc=1)


class Interrupting(io.StringIO):
    """Raises as if Ctrl-C was pressed while the output is written."""

    def write(self, text: str) -> int:
        raise KeyboardInterrupt
