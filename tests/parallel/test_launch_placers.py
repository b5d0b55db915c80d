"""Jobs whose workers the caller starts itself: ``launch_gloo``, ``ElasticDriver`` and ``RendezvousServer``."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

import pytest
from horovod.runner import gloo_run
from horovod.runner.common.util import safe_shell_exec
from horovod.runner.common.util.hosts import INVALID_SLOT_INFO, SlotInfo, get_host_assignments, parse_hosts
from horovod.runner.common.util.settings import Settings
from horovod.runner.common.util.timeout import TimeoutException
from horovod.runner.elastic import discovery, driver
from horovod.runner.elastic.rendezvous import create_rendezvous_handler
from horovod.runner.elastic.settings import ElasticSettings
from horovod.runner.http.http_server import RendezvousServer
from launched import DEADLINE_S, Job, assert_gone, clean_environment, needs_launcher, write_script

pytestmark = needs_launcher
SECRET = "FARANDOLE_SECRET_FILE"

# Prints its place, and the sum of all ranks.
SUMS = """
import os
import numpy, farandole.numpy as hvd
hvd.init()
total = hvd.allreduce(numpy.full(2, hvd.rank() + 1.0), op=hvd.Sum)
print(os.environ["HOROVOD_HOSTNAME"], os.environ["HOROVOD_RANK"], hvd.rank(), hvd.size(), total.tolist(), flush=True)
"""


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """After each test, no thread, child process, handler or variable is left."""
    monkeypatch.delenv(SECRET, raising=False)
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    threads = set(threading.enumerate())
    yield
    assert SECRET not in os.environ
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == handlers
    assert set(threading.enumerate()) <= threads
    assert Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text() == ""


class Cluster:
    """Starts workers on this host, whatever the names of their hosts, and keeps an account of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.slots: List[SlotInfo] = []
        self.texts: List[str] = []
        self.lock = threading.Lock()

    def execute(self, command: str, slot_info: SlotInfo, events: List[threading.Event]) -> Tuple[int, float]:
        with self.lock:
            self.slots.append(slot_info)
            self.texts.append(command)
        with (self.folder / f"output.{slot_info.rank}").open("a") as output:
            code = safe_shell_exec.execute(command, stdout=output, stderr=output, events=events)
        return code, time.time()

    def output(self, rank: int) -> str:
        return (self.folder / f"output.{rank}").read_text()

    def all_output(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("output.*")))


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def python(folder: Path, script: str) -> str:
    return f"{sys.executable} {write_script(folder, script)}"


def settings_of(hosts: str, count: int, **options: Any) -> Settings:
    return Settings(hosts=hosts, num_proc=count, **options)


def test_the_function_of_the_caller_starts_the_worker_of_each_slot(cluster: Cluster, tmp_path: Path) -> None:
    settings = settings_of("a:1,b:2", 3)
    command = python(tmp_path, SUMS) + " && echo $OWN"
    secret = os.urandom(32).hex()
    variables = {"OWN": "it's set", "FARANDOLE_SECRET": secret}
    gloo_run.launch_gloo(command, cluster.execute, settings, None, variables, "127.0.0.1")
    assert [each.to_response_string() for each in sorted(cluster.slots, key=lambda slot: slot.rank)] == [
        *("0,3,0,1,0,2", "1,3,0,2,1,2", "2,3,1,2,0,1")
    ]
    assert sorted(each.hostname or "" for each in cluster.slots) == ["a", "b", "b"]
    for rank, host in enumerate("abb"):
        assert f"{host} {rank} {rank} 3 [6.0, 6.0]\nit's set\n" in cluster.output(rank), cluster.all_output()
    assert all(" FARANDOLE_SECRET_FILE=/" in text and secret not in text for text in cluster.texts)


# Rank 1 fails after all ranks have joined; the others wait for a message that never comes.
FAILS = """
import os, sys, time
import farandole.numpy as hvd
hvd.init()
print("pid", os.getpid(), flush=True)
hvd.barrier()
if hvd.rank() == 1:
    sys.exit(3)
time.sleep(1000)
"""


def test_a_worker_that_fails_ends_the_others(cluster: Cluster, tmp_path: Path) -> None:
    settings = settings_of("a:1,b:1", 2)
    expected = "exited with non-zero status(?s:.*)Process name: 1\nExit code: 3"
    with pytest.raises(RuntimeError, match=expected):
        gloo_run.launch_gloo(python(tmp_path, FAILS), cluster.execute, settings, {"lo"}, {}, "127.0.0.1")
    pids = [int(line.split()[1]) for line in cluster.all_output().splitlines() if line.startswith("pid ")]
    assert len(pids) == 2
    assert_gone(pids)


def test_an_exception_of_the_function_ends_the_job(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def refuse(*_: Any) -> Tuple[int, float]:
        raise LookupError("no machine is free")

    with pytest.raises(RuntimeError, match="Exit code: 1") as caught:
        gloo_run.launch_gloo(["true"], refuse, settings_of("a:1", 1), None, {}, "127.0.0.1")
    assert isinstance(caught.value.__cause__, LookupError)
    assert "no machine is free" in capfd.readouterr().err


def test_an_address_of_another_host_is_refused(cluster: Cluster) -> None:
    with pytest.raises(RuntimeError, match=r"has the address 192\.0\.2\.1; give an address of this host"):
        gloo_run.launch_gloo("true", cluster.execute, settings_of("a:1", 1), None, {}, "192.0.2.1")
    assert cluster.slots == []


# Launches two workers that print their process ids and wait.
WAITING = """
import sys
import time
from horovod.runner import gloo_run
from horovod.runner.common.util import safe_shell_exec
from horovod.runner.common.util.settings import Settings

def execute(command, slot_info, events):
    return safe_shell_exec.execute(command, events=events), time.time()

gloo_run.launch_gloo("echo pid $$; exec sleep 1000", execute, Settings(hosts="a:1,b:1", num_proc=2), None, {},
                     "127.0.0.1")
"""


def test_sigterm_to_the_caller_ends_the_job(tmp_path: Path, jobs: List[Job]) -> None:
    jobs.append(Job(["-u", write_script(tmp_path, WAITING)], program=sys.executable))
    pids = jobs[0].pids(2)
    jobs[0].process.terminate()
    assert jobs[0].end() == 1
    assert "RuntimeError" in jobs[0].text
    assert_gone(pids)


def test_an_elastic_job_returns_the_results_of_a_function(cluster: Cluster) -> None:
    def place() -> Any:
        import farandole.numpy as hvd
        import numpy

        hvd.init()
        total = hvd.allreduce(numpy.full(2, hvd.rank() + 1.0), op=hvd.Sum)
        return hvd.rank(), hvd.size(), os.environ["HOROVOD_ELASTIC"], total.tolist()

    place.__module__ = "__main__"  # pickled with its code
    settings = ElasticSettings(discovery.FixedHosts({"a": 1, "b": 1}), 2, 2, 60, None, num_proc=2)
    asked: List[Any] = []

    def interfaces(asking: Any) -> List[str]:
        asked.append(asking)
        return ["lo"]

    server = RendezvousServer()
    found = gloo_run.launch_gloo_elastic(place, cluster.execute, settings, {}, interfaces, server, None)
    assert found == [(rank, 2, "1", [3.0, 3.0]) for rank in range(2)], cluster.all_output()
    assert sorted(each.hostname or "" for each in cluster.slots) == ["a", "b"]
    assert isinstance(asked[0], driver.ElasticDriver)


# The worker on host b fails in the first generation; the other one continues alone.
SHRINKS = """
import os
import numpy, farandole.numpy as hvd
hvd.init()
state = hvd.elastic.NumPyState(sizes=[])

@hvd.elastic.run
def train(state):
    state.sizes.append(hvd.size())
    state.commit()
    hvd.barrier()
    if os.environ["HOROVOD_HOSTNAME"] == "b":
        os._exit(5)
    if hvd.size() == 2:
        hvd.barrier()

train(state)
print("SIZES", state.sizes, flush=True)
"""


def test_an_elastic_job_continues_without_a_host_that_fails(cluster: Cluster, tmp_path: Path) -> None:
    settings = ElasticSettings(discovery.FixedHosts({"a": 1, "b": 1}), 1, 2, 60, None, num_proc=2)
    command = python(tmp_path, SHRINKS)
    server = RendezvousServer()
    gloo_run.launch_gloo_elastic(command, cluster.execute, settings, {}, lambda _: ["lo"], server, None)
    assert "SIZES [2, 1]" in cluster.all_output(), cluster.all_output()


def test_too_few_slots_raise_the_exception_for_timeouts(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The times and the number of hosts are looked up when they are used."""
    monkeypatch.setattr(driver, "ELASTIC_TIMEOUT_SECS", 0)
    monkeypatch.setattr(driver, "DISCOVER_HOSTS_FREQUENCY_SECS", 0.001)
    monkeypatch.setattr(gloo_run, "_get_min_start_hosts", lambda settings: 2)
    hosts = discovery.FixedHosts({"a": 2})
    settings = ElasticSettings(hosts, 1, 2, None, None, num_proc=1)
    with pytest.raises(TimeoutException, match="waiting for 1 slots on 2 hosts, of which 2 on 1 were found, took long"):
        gloo_run.launch_gloo_elastic("true", cluster.execute, settings, {}, lambda _: ["lo"], RendezvousServer(), None)
    assert cluster.slots == []


def worker(folder: Path, variables: Dict[str, str]) -> subprocess.Popen[str]:
    environment = {**clean_environment(), **variables}
    command = [sys.executable, write_script(folder, SUMS)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, text=True)


def run_workers(folder: Path, port: int, plan: List[SlotInfo]) -> List[str]:
    """The output of the workers of a plan, started by hand."""
    common = gloo_run.create_run_env_vars("127.0.0.1", ["lo"], port)
    started = [worker(folder, {**common, **gloo_run.create_slot_env_vars(slot)}) for slot in plan]
    try:
        return [process.communicate(timeout=DEADLINE_S)[0] for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_a_rendezvous_serves_one_plan_after_the_other_at_its_port(tmp_path: Path) -> None:
    server = RendezvousServer()
    server.address = "127.0.0.1"
    port = server.start()
    try:
        assert Path(os.environ[SECRET]).stat().st_mode & 0o777 == 0o600
        with pytest.raises(RuntimeError, match="was started already"):
            server.start()
        for count in (2, 1):
            plan = get_host_assignments(parse_hosts(f"a:{count}"), count)
            server.init(plan)
            texts = run_workers(tmp_path, port, plan)
            total = float(sum(range(count + 1)))
            for rank, text in enumerate(texts):
                assert f"a {rank} {rank} {count} [{total}, {total}]" in text
    finally:
        server.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    with pytest.raises(RuntimeError, match=r"call start\(\) first"):
        server.init([])


def test_a_rendezvous_refuses_a_worker_without_the_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = RendezvousServer()
    server.address = "127.0.0.1"
    port = server.start()
    try:
        plan = get_host_assignments(parse_hosts("a:1"), 1)
        server.init(plan)
        variables = {
            **gloo_run.create_run_env_vars("127.0.0.1", ["lo"], port),
            **gloo_run.create_slot_env_vars(plan[0]),
        }
        other = tmp_path / "other"
        other.write_text("0123456789abcdef" * 3 + "c" + "5e1f3a7" * 4)
        other.chmod(0o600)
        without = {name: value for name, value in variables.items() if name != SECRET}
        for wrong in (without, {**variables, SECRET: str(other)}):
            with monkeypatch.context() as patch:
                patch.delenv(SECRET)
                process = worker(tmp_path, wrong)
            text, _ = process.communicate(timeout=DEADLINE_S)
            assert process.returncode != 0 and "secret" in text, text
        process = worker(tmp_path, variables)
        text, _ = process.communicate(timeout=DEADLINE_S)
        assert "a 0 0 1 [1.0, 1.0]" in text
    finally:
        server.stop()


def test_a_rendezvous_ends_when_its_process_is_killed(tmp_path: Path, jobs: List[Job]) -> None:
    script = """
    import signal
    from horovod.runner.http.http_server import RendezvousServer
    server = RendezvousServer()
    server.address = "127.0.0.1"
    server.start()
    server.init([None])
    print("pid", server._program._process.pid, flush=True)
    signal.pause()
    """
    environment = {**clean_environment(), SECRET: secret_in(tmp_path)}
    jobs.append(Job([write_script(tmp_path, script)], environment, sys.executable))
    pids = jobs[0].pids(1)
    jobs[0].kill()
    assert_gone(pids)


def secret_in(folder: Path) -> str:
    path = folder / "secret"
    path.write_text(os.urandom(32).hex())
    path.chmod(0o600)
    return str(path)


@pytest.fixture
def elastic_driver() -> Iterator[Callable[..., driver.ElasticDriver]]:
    """Makes a driver and its rendezvous, as tools with their own clusters do."""
    server = RendezvousServer()
    made: List[driver.ElasticDriver] = []

    def make(hosts: discovery.HostDiscovery, fewest: int, most: int) -> driver.ElasticDriver:
        made.append(driver.ElasticDriver(server, hosts, fewest, most, timeout=60))
        server.start(create_rendezvous_handler(made[0]))
        return made[0]

    yield make
    for each in made:
        each.stop()
    server.stop()


def test_a_driver_runs_the_workers_of_a_cluster(
    elastic_driver: Callable[..., driver.ElasticDriver], cluster: Cluster, tmp_path: Path
) -> None:
    run = elastic_driver(discovery.FixedHosts({"a": 1, "b": 1}), 2, 2)
    port = run._rendezvous.port
    seen: Dict[str, Any] = {}
    all_run = threading.Barrier(2, timeout=DEADLINE_S)
    command = python(tmp_path, SUMS)

    def create_worker(slot_info: SlotInfo, events: List[threading.Event]) -> Tuple[int, float]:
        all_run.wait()
        if slot_info.hostname == "a":
            seen.update(
                size=run.world_size(),
                local=run.local_size("a"),
                hosts=sorted(run.host_assignments),
                coordinator=run.get_coordinator_info(),
                ranks=sorted(run.get_slot_info(host, 0).rank for host in "ab"),
                others=(run.get_slot_info("c", 0), run.has_rank_assignment("a", 0), run.has_rank_assignment("a", 1)),
            )
        all_run.wait()
        variables = {
            **gloo_run.create_run_env_vars("127.0.0.1", ["lo"], port, elastic=True),
            **gloo_run.create_slot_env_vars(slot_info),
        }
        settings = " ".join(f"{name}={value}" for name, value in variables.items())
        return cluster.execute(f"env {settings} {command}", slot_info, events)

    run.start(2, create_worker)
    results = run.get_results()
    assert results.error_message is None, results.error_message
    assert {name: code for name, (code, _) in results.worker_results.items()} == {"a[0]": 0, "b[0]": 0}
    assert run.finished() and run.world_size() == 0 and run.get_coordinator_info() is None
    assert cluster.all_output().count(" 2 [3.0, 3.0]") == 2, cluster.all_output()
    assert (seen["size"], seen["local"], seen["hosts"], seen["ranks"]) == (2, 1, ["a", "b"], [0, 1])
    assert seen["coordinator"].rank == 0
    assert seen["others"] == (INVALID_SLOT_INFO, True, False)
    with pytest.raises(RuntimeError, match="make a new one for each job"):
        run.start(2, create_worker)


def test_a_driver_that_is_stopped_ends_its_workers(
    elastic_driver: Callable[..., driver.ElasticDriver],
) -> None:
    run = elastic_driver(discovery.FixedHosts({"a": 1}), 1, 1)
    began = threading.Event()

    def create_worker(slot_info: SlotInfo, events: List[threading.Event]) -> Tuple[int, float]:
        began.set()
        while not any(each.is_set() for each in events):
            events[1].wait(0.01)
        return 143, time.time()

    run.start(1, create_worker)
    assert began.wait(DEADLINE_S)
    run.stop("the cluster is needed for something else")
    results = run.get_results()
    assert results.error_message == "the cluster is needed for something else"
    assert run.finished()


def test_results_wait_for_the_threads_of_workers() -> None:
    recorder = driver.ResultsRecorder()
    release = threading.Event()

    def work() -> None:
        assert release.wait(DEADLINE_S)
        recorder.add_result("a[0]", (0, 5.0))

    thread = threading.Thread(target=work)
    recorder.expect(thread)
    thread.start()
    recorder.set_error_message("first")
    recorder.set_error_message("second")
    release.set()
    results = recorder.get_results()
    assert (results.error_message, results.worker_results) == ("first", {"a[0]": (0, 5.0)})


def test_a_placed_worker_is_started_by_nothing_else() -> None:
    command = [sys.executable, "-m", "farandole.runner.placed_worker"]
    ended = subprocess.run(command, env=clean_environment(), check=False, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "names no descriptor: this program is started by launch_gloo()" in ended.stderr


def test_a_command_keeps_its_words_in_the_shell() -> None:
    from farandole.runner.functions import placement

    text = placement.command_text(["printf", "%s|%s", "a b", "$X"], {"X": "it's", "Y": "1 2"})
    shown = subprocess.run(text, shell=True, check=True, capture_output=True, text=True).stdout
    assert shown == "a b|$X"
    shown = subprocess.run(
        placement.command_text("printf '%s' \"$X\" && echo $Y", {"X": "it's", "Y": "1 2"}),
        shell=True,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert shown == "it's1 2\n"
