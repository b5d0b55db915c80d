"""Functions of `horovod.run()` and `farandole.session()` on other hosts, called by a program on host a."""

from __future__ import annotations

import re
import sys
from typing import Callable

import pytest
from guides import GUIDES
from launched import DEADLINE_S
from namespaces import Process
from namespaces.ssh_hosts import RUNTIME, SshHosts
from workers import SILENT, exit_code, python, wait_until_empty

GUIDE = (GUIDES / "functions.md").read_text()


@pytest.fixture
def call(hosts: SshHosts, launcher_command: None) -> Callable[..., Process]:
    """Starts a Python program on host a."""

    def start(script: str, *arguments: str) -> Process:
        environment = {"HOME": str(hosts.home), "XDG_RUNTIME_DIR": RUNTIME, "FARANDOLE_RSH": hosts.rsh}
        return hosts.start(0, python(hosts.shared, script, *arguments), environment)

    return start


def test_the_example_of_the_guide_prints_what_it_says(call: Callable[..., Process], hosts: SshHosts) -> None:
    example = re.search(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    assert example
    # The example needs no framework, which would be imported by all workers.
    job = call(example.group(1).replace("horovod.torch", "horovod.numpy"))
    assert exit_code(job) == 0, job.text
    expected = re.search(r"print\(horovod.run\(.*\)\)  # (.*)", example.group(1))
    assert expected and f"{expected.group(1)}\n" in job.text, job.text
    wait_until_empty(hosts, 0, 1)


def test_the_error_that_the_guide_shows_is_raised(call: Callable[..., Process], hosts: SshHosts) -> None:
    shown = re.search(r"^    RuntimeError: Horovod detected.*\n(?:    .*\n)+", GUIDE, re.MULTILINE)
    assert shown
    job = call("""\
        import horovod
        import os


        def train(batch):
            rank = int(os.environ["HOROVOD_RANK"])
            return batch["labels"] if rank == 1 else rank


        horovod.run(train, args=({},), num_proc=2, hosts="a:1,b:1")
        """)
    assert exit_code(job) == 1, job.text
    lines = iter(re.sub('File ".*/', 'File "', job.text).replace("script0.py", "train.py").splitlines())
    missing = [line[4:] for line in shown.group(0).splitlines() if line[4:] not in lines]
    assert missing == [], job.text
    wait_until_empty(hosts, 0, 1)


def test_results_come_from_all_hosts(call: Callable[..., Process], hosts: SshHosts) -> None:
    """The function and its results have several megabytes."""
    job = call("""
        import os, socket
        import horovod

        def function(content):
            import farandole.numpy as hvd, numpy
            hvd.init()
            total = hvd.allreduce(numpy.full(4, hvd.rank()), op=hvd.Sum)[0]
            return hvd.rank(), socket.gethostname(), float(total), content[::-1]

        content = os.urandom(1000) * 8000
        results = horovod.run(function, (content,), num_proc=4, hosts="a:2,b:1,c:1")
        assert [each[:3] for each in results] == [(0, "a", 6), (1, "a", 6), (2, "b", 6), (3, "c", 6)], results
        assert all(each[3] == content[::-1] for each in results)
        print("checked")
        """)
    assert exit_code(job) == 0, job.text
    assert "checked" in job.text
    wait_until_empty(hosts, 0, 1, 2)


@pytest.mark.slow
def test_a_gigabyte_travels_to_another_host_and_back(call: Callable[..., Process], hosts: SshHosts) -> None:
    job = call("""
        import os
        import horovod

        def function(content):
            return content[::-1]

        content = os.urandom(1000) * 1_100_000
        assert horovod.run(function, (content,), num_proc=1, hosts="b:1") == [content[::-1]]
        print("checked")
        """)
    assert exit_code(job) == 0, job.text
    assert "checked" in job.text
    wait_until_empty(hosts, 0, 1)


def test_a_failure_on_another_host_is_raised_with_its_rank_and_host(
    call: Callable[..., Process], hosts: SshHosts
) -> None:
    job = call("""
        import os, signal
        import horovod

        def function():
            if os.environ["HOROVOD_RANK"] == "1":
                raise KeyError("labels")
            signal.pause()

        try:
            horovod.run(function, num_proc=2, hosts="a:1,b:1")
        except RuntimeError as problem:
            text = str(problem)
            assert "Process name: 1\\nExit code: 1\\n" in text, text
            assert "Rank 1 on host b raised KeyError: 'labels'\\nTraceback" in text, text
            print("checked")
        """)
    assert exit_code(job) == 0, job.text
    assert "checked" in job.text
    wait_until_empty(hosts, 0, 1, 2)


def test_a_host_without_an_agent_after_the_start_timeout_raises_the_exception_for_timeouts(
    call: Callable[..., Process], hosts: SshHosts
) -> None:
    """The ssh of host b accepts connections and says nothing, and that of host c refuses them."""
    hosts.stop_sshd(1)
    hosts.stop_sshd(2)
    silent = hosts.start(1, [sys.executable, "-c", SILENT])
    silent.read_until("ready")
    job = call("""
        import horovod
        from horovod.runner.common.util.timeout import TimeoutException

        try:
            horovod.run(print, num_proc=2, hosts="a:1,b:1", start_timeout=2)
        except TimeoutException as problem:
            assert "host b: its agent has not connected within start timeout" in str(problem), problem
            print("late")
        try:
            horovod.run(print, num_proc=2, hosts="a:1,c:1", start_timeout=20)
        except RuntimeError as problem:
            assert "host c: ssh exited with code 255" in str(problem), problem
            print("refused")
        """)
    assert exit_code(job) == 0, job.text
    assert {"late", "refused"} <= set(job.text.splitlines()), job.text
    silent.kill()


def test_a_module_that_another_host_does_not_have_is_named(call: Callable[..., Process], hosts: SshHosts) -> None:
    folder = hosts.shared / "modules"
    folder.mkdir()
    (folder / "own_module.py").write_text("def function(): return 1\n")
    hosts.hide(1, folder)
    job = call(
        """
        import sys
        sys.path.append(sys.argv[1])
        import horovod, own_module

        assert horovod.run(own_module.function, num_proc=2, hosts="a:1,c:1") == [1, 1]
        try:
            horovod.run(own_module.function, num_proc=2, hosts="a:1,b:1")
        except RuntimeError as problem:
            assert "Rank 1 on host b raised CannotLoad: the function needs the module own_module" in str(problem)
            print("checked")
        """,
        str(folder),
    )
    assert exit_code(job) == 0, job.text
    assert "checked" in job.text


def test_a_host_that_cannot_be_reached_is_named(call: Callable[..., Process], hosts: SshHosts) -> None:
    hosts.stop_sshd(1)
    job = call("""
        import horovod
        try:
            horovod.run(print, num_proc=2, hosts="a:1,b:1")
        except RuntimeError as problem:
            assert "could not connect to some hosts via" in str(problem) and "b" in str(problem), problem
            print("checked")
        """)
    assert exit_code(job) == 0, job.text
    assert "checked" in job.text


def test_a_session_keeps_workers_of_several_hosts(call: Callable[..., Process], hosts: SshHosts) -> None:
    job = call("""
        import os
        import farandole

        def add(table):
            import farandole.numpy as hvd
            state = farandole.session.state
            state.total = getattr(state, "total", 0) + hvd.allreduce(table, op=hvd.Sum)
            return float(state.total[0]), os.getpid()

        import numpy
        with farandole.session(4, hosts="a:2,b:2") as workers:
            table = workers.put(numpy.ones(1_000_000))
            first, second = workers.run(add, table), workers.run(add, table)
            assert [each[0] for each in first + second] == [4] * 4 + [8] * 4, (first, second)
            assert [each[1] for each in first] == [each[1] for each in second]
            assert [(each.rank, each.host) for each in workers.workers] == [(0, "a"), (1, "a"), (2, "b"), (3, "b")]
            print("checked")
        """)
    assert exit_code(job) == 0, job.text
    assert "checked" in job.text
    wait_until_empty(hosts, 0, 1, 2)


def test_an_elastic_session_uses_the_slots_of_all_hosts(call: Callable[..., Process], hosts: SshHosts) -> None:
    job = call("""
        import os, signal
        import farandole

        def place():
            import farandole.numpy as hvd, numpy
            total = hvd.allreduce(numpy.full(4, hvd.rank()), op=hvd.Sum)[0]
            return os.environ["HOROVOD_HOSTNAME"], hvd.size(), float(total)

        def die():
            import farandole.numpy as hvd
            if hvd.rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)

        with farandole.session(2, hosts="a:1,b:1,c:2", min_np=1) as workers:
            table = workers.put(b"table")
            assert workers.run(place) == [("a", 2, 1), ("b", 2, 1)]
            try:
                workers.run(die)
            except RuntimeError as problem:
                assert str(problem).startswith("Rank 1 on host b was killed by signal 9"), problem
            # Another host replaces the worker at once.
            assert workers.run(place) == [("a", 2, 1), ("c", 2, 1)], workers.workers
            workers.scale(3)
            assert workers.run(place)[2][0] in ("b", "c")
            assert workers.run(len, table) == [5, 5, 5]
            workers.scale(1)
            assert workers.run(place) == [("a", 1, 0)]
            print("checked")
        """)
    assert exit_code(job) == 0, job.text
    assert "checked" in job.text
    wait_until_empty(hosts, 0, 1, 2)


def test_workers_on_other_hosts_end_when_the_caller_is_killed(call: Callable[..., Process], hosts: SshHosts) -> None:
    job = call("""
        import signal
        import horovod

        def function():
            print("runs", flush=True)
            signal.pause()

        horovod.run(function, num_proc=3, hosts="a:1,b:1,c:1")
        """)
    job.read_matches("runs", 3, DEADLINE_S)
    job.kill()
    wait_until_empty(hosts, 0, 1, 2)
