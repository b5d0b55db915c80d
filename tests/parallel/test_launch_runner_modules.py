"""The modules of ``horovod.runner`` that other tools import."""

from __future__ import annotations

import io
import os
import signal
import socket
import threading
from pathlib import Path
from typing import Any, Iterator, List

import pytest
from farandole.runner import program
from horovod.runner import _HorovodArgs, gloo_run
from horovod.runner.common.service.compute_service import ComputeClient, ComputeService
from horovod.runner.common.util import codec, config_parser, env, host_hash, network, safe_shell_exec, secret
from horovod.runner.common.util.hosts import (
    INVALID_SLOT_INFO,
    HostInfo,
    get_host_assignments,
    parse_host_files,
    parse_hosts,
    parse_hosts_and_slots,
)
from horovod.runner.common.util.timeout import Timeout, TimeoutException
from horovod.runner.elastic import discovery, driver
from horovod.runner.elastic.worker import (
    HostUpdateResult,
    WorkerNotificationClient,
    WorkerNotificationManager,
    WorkerNotificationService,
)
from horovod.runner.util import lsf
from horovod.runner.util import network as interfaces
from horovod.runner.util.threads import in_thread
from launched import assert_gone


def test_hosts_get_ranks_in_the_given_order() -> None:
    slots = get_host_assignments(parse_hosts("a:2,b:1,c:2"), 3)
    assert [each.to_response_string() for each in slots] == [
        *("0,5,0,2,0,3", "1,5,1,2,0,2", "2,5,0,1,1,3", "3,5,0,2,2,3", "4,5,1,2,1,2")
    ]
    assert [each.hostname for each in slots] == ["a", "a", "b", "c", "c"]
    slots = get_host_assignments(parse_hosts("a:1,b:1,a:1"), 3)  # one host, as for the launcher
    places = [(each.hostname, each.local_rank, each.cross_size) for each in slots]
    assert places == [("a", 0, 2), ("a", 1, 1), ("b", 0, 2)]


def test_the_most_processes_cap_the_slots() -> None:
    slots = get_host_assignments([HostInfo("a", 2), HostInfo("b", 4)], 2, 3)
    assert [(each.hostname, each.size, each.local_size) for each in slots] == [("a", 3, 2), ("a", 3, 2), ("b", 3, 1)]
    assert [(each.cross_rank, each.cross_size) for each in slots] == [(0, 2), (0, 1), (1, 2)]
    with pytest.raises(ValueError, match="7 processes were asked for, but the hosts have only 6 slots"):
        get_host_assignments([HostInfo("a", 2), HostInfo("b", 4)], 7)


def test_hosts_are_parsed(tmp_path: Path) -> None:
    assert parse_hosts("a-1.b:2,[fe80::1]:3") == [HostInfo("a-1.b", 2), HostInfo("fe80::1", 3)]
    assert parse_hosts_and_slots("b:2,a:1,b:3") == (["b", "a"], {"b": 5, "a": 1})
    for text in ("a", "a:", "a:x", "a b:1", "", "-V:1", "-oProxyCommand=x:1", "user@a:1", "a:65537"):
        with pytest.raises(ValueError, match="is no host and its slots"):
            parse_hosts(text)
    assert INVALID_SLOT_INFO.to_response_string() == "-1,-1,-1,-1,-1,-1"
    file = tmp_path / "hosts"
    file.write_text("# all\na slots=2\n\nb  slots = 3 # large\n")
    assert parse_host_files(str(file)) == "a:2,b:3"
    file.write_text("\ufeffa:2\n[::1] slots=3 max_slots = 4\r\n", encoding="utf-8")
    assert parse_host_files(str(file)) == "a:2,[::1]:3"
    forms = ("b", "-V slots=2", "b:2 slots=2", "b max_slots=2", "b c slots=2", "b slots=x", "u@b slots=2", "b:65537")
    repeated = ("b slots=2 slots=3", "b slots=1 max_slots=2 max-slots=2")
    for line in (*forms, *repeated):
        file.write_text(f"a slots=2\n{line}\n")
        with pytest.raises(ValueError, match=f"hosts, line 2: '{line}' is not of the form"):
            parse_host_files(str(file))
    file.write_text("a slots=2 max_slots=2\nb slots=4 max_slots=2\n")
    with pytest.raises(ValueError, match="line 2: 'b slots=4 max_slots=2' has fewer max_slots than slots"):
        parse_host_files(str(file))
    assert parse_hosts("a:65536,b:65536") == [HostInfo("a", 65536), HostInfo("b", 65536)]
    file.write_text("a slots=65536\na slots=1\n")
    for parse in (lambda: parse_hosts("a:1,b:1,a:65536"), lambda: parse_host_files(str(file))):
        with pytest.raises(ValueError, match="host 'a' has more than 65536 slots altogether"):
            parse()
    file.write_text("a slots=2 cpu=2\n")
    with pytest.raises(ValueError, match="line 1: .* has the unknown keyword 'cpu'"):
        parse_host_files(str(file))


def test_a_deadline_passes() -> None:
    late = Timeout(-1, "{activity} took longer than {timeout} s")
    assert late.timed_out() and late.remaining() == 0
    with pytest.raises(TimeoutException, match="^start took longer than -1 s$"):
        late.check_time_out_for("start")
    early = Timeout(1000, "{activity}")
    early.check_time_out_for("start")
    assert not early.timed_out() and 0 < early.remaining() <= 1000


def test_digests_and_codes() -> None:
    key = secret.make_secret_key()
    assert len(key) == 32 and key != secret.make_secret_key()
    assert secret.check_digest(key, b"text", secret.compute_digest(key, b"text"))
    assert not secret.check_digest(key, b"other", secret.compute_digest(key, b"text"))
    text = codec.dumps_base64(lambda: 5)
    assert isinstance(text, str) and codec.loads_base64(text)() == 5
    assert codec.loads_base64(codec.dumps_base64([1], to_ascii=False)) == [1]


def test_variables_of_this_host_are_not_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = ("BASH_FUNC_x%%", "OLDPWD", "CUDA_VISIBLE_DEVICES", "NV_CUDA_VISIBLE_DEVICES", "_HOROVOD_SECRET_KEY")
    assert not any(env.is_exportable(each) for each in kept)
    assert all(env.is_exportable(each) for each in ("PATH", "OLDPWD2", "HOROVOD_RANK"))
    monkeypatch.setenv("OMPI_MCA_plm_rsh_agent", "/etc/mpi/kubexec.sh")
    assert env.is_kubeflow_mpi()


def test_the_place_comes_from_the_launcher_that_started_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for launcher in ("HOROVOD", "OMPI_COMM_WORLD", "PMI"):
        monkeypatch.delenv(f"{launcher}_RANK", raising=False)
    assert env.get_env_rank_and_size() == (0, 1)
    for launcher, place in (("PMI", (1, 2)), ("OMPI_COMM_WORLD", (2, 3)), ("HOROVOD", (3, 4))):
        monkeypatch.setenv(f"{launcher}_RANK", str(place[0]))
        monkeypatch.setenv(f"{launcher}_SIZE", str(place[1]))
        assert env.get_env_rank_and_size() == place
    monkeypatch.setenv("HOROVOD_SIZE", "many")
    with pytest.raises(ValueError, match="HOROVOD_RANK='3' and HOROVOD_SIZE='many'"):
        env.get_env_rank_and_size()


def test_containers_and_salts_are_other_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONTAINER_ID", raising=False)
    found = {host_hash.host_hash(), host_hash.host_hash(salt=1)}
    assert host_hash.host_hash() in found
    monkeypatch.setenv("CONTAINER_ID", "c1")
    found.add(host_hash.host_hash())
    assert len(found) == 3
    name = socket.gethostname().split(".")[0]
    assert all(each.startswith(f"{name}-") for each in found)
    monkeypatch.setattr(host_hash, "_hash", lambda text: f"hash of {len(text)} characters")
    assert host_hash.host_hash(salt="1").startswith(f"{name}-hash of ")


def test_options_become_variables() -> None:
    arguments = _HorovodArgs()
    assert config_parser.set_env_from_args({}, arguments) == {}
    arguments.fusion_threshold_mb, arguments.cycle_time_ms = 64, 2.5
    arguments.hierarchical_allreduce, arguments.torus_allreduce = True, False
    arguments.log_with_timestamp, arguments.no_stall_check = True, False
    arguments.timeline_mark_cycles, arguments.autotune_log_file = True, "log"
    arguments.tcp_flag = True
    assert config_parser.set_env_from_args({"PATH": "p"}, arguments) == {
        "PATH": "p",
        "HOROVOD_FUSION_THRESHOLD": str(64 << 20),
        "HOROVOD_CYCLE_TIME": "2.5",
        "HOROVOD_HIERARCHICAL_ALLREDUCE": "1",
        "HOROVOD_TORUS_ALLREDUCE": "0",
        "HOROVOD_LOG_HIDE_TIME": "0",
        "HOROVOD_STALL_CHECK_DISABLE": "0",
        "NCCL_IB_DISABLE": "1",
    }
    arguments.autotune, arguments.timeline_filename = True, "trace"
    found = config_parser.set_env_from_args({}, arguments)
    assert (found["HOROVOD_AUTOTUNE"], found["HOROVOD_AUTOTUNE_LOG"]) == ("1", "log")
    assert (found["HOROVOD_TIMELINE"], found["HOROVOD_TIMELINE_MARK_CYCLES"]) == ("trace", "1")


def executed(command: Any, **options: Any) -> Any:
    stdout, stderr = io.StringIO(), io.StringIO()
    code = safe_shell_exec.execute(command, stdout=stdout, stderr=stderr, **options)
    return code, stdout.getvalue(), stderr.getvalue()


def test_a_command_is_run_with_prefixes_and_its_exit_code() -> None:
    assert executed("echo a; printf b; echo $X >&2; exit 3", env={"X": "é"}, index=1) == (
        3,
        "[1]<stdout>:a\n[1]<stdout>:b",
        "[1]<stderr>:é\n",
    )
    assert executed(["sh", "-c", "kill -9 $$"])[0] == 137
    code, text, _ = executed("echo a", index=0, prefix_output_with_timestamp=True)
    assert code == 0 and text.endswith("[0]<stdout>:a\n") and len(text) > 30


def test_an_event_ends_all_processes_of_a_command() -> None:
    event = threading.Event()

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            super().write(text)
            if text.count("\n") + self.getvalue().count("\n") >= 2:
                event.set()
            return len(text)

    stdout = Stream()
    command = "sh -c 'echo $$; exec sleep 1000' & echo $$; wait"
    assert safe_shell_exec.execute(command, stdout=stdout, events=[event]) == 128 + signal.SIGTERM
    assert_gone([int(each) for each in stdout.getvalue().split()])


def test_a_command_that_closes_its_output_can_be_ended() -> None:
    event = threading.Event()
    thread = in_thread(event.set, name="setter")
    assert executed("exec >&- 2>&-; exec sleep 1000", events=[event])[0] == 128 + signal.SIGTERM
    thread.join()
    with pytest.raises(ValueError, match="args must be a tuple, not list"):
        in_thread(print, [1])


def test_a_process_that_leaves_the_group_of_a_command_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safe_shell_exec, "GRACEFUL_TERMINATION_TIME_S", 0.1)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    leaver = f"setsid sh -c 'printf $$; echo >{fifo}; exec sleep 1000'"
    code, stdout, _ = executed(f"{leaver} & read -r _ <{fifo}; exit 3")
    os.kill(int(stdout), signal.SIGKILL)
    assert code == 3


class Echo(network.BasicService):
    def _handle(self, req: Any, client_address: Any) -> Any:
        return req * 2 if isinstance(req, (int, str)) else super()._handle(req, client_address)


@pytest.fixture
def key() -> bytes:
    return secret.make_secret_key()


@pytest.fixture
def echo(key: bytes) -> Iterator[Echo]:
    service = Echo("echo", key, interfaces.get_local_intfs())
    yield service
    service.shutdown()


def test_a_service_answers_holders_of_its_key(echo: Echo, key: bytes) -> None:
    assert list(echo.addresses().values()) == [[("127.0.0.1", echo.get_port())]]
    client = network.BasicClient("echo", echo.addresses(), key, 0, match_intf=True)
    assert client.addresses() == echo.addresses()
    assert (client._send(21), client._send("ab")) == (42, "abab")


def test_a_request_that_is_too_large_is_not_sent(echo: Echo, key: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    client = network.BasicClient("echo", echo.addresses(), key, 0)
    monkeypatch.setattr(network, "_MOST_BYTES", 1000)
    with pytest.raises(ValueError, match=r"a request of 2\d{3} bytes is too large: services take at most 1000"):
        client._send("x" * 2000)
    assert client._send("x") == "xx"


@pytest.mark.parametrize("name, has_key", [("echo", False), ("other", True)])
def test_a_service_refuses_others(echo: Echo, key: bytes, name: str, has_key: bool) -> None:
    used = key if has_key else secret.make_secret_key()
    with pytest.raises(network.NoValidAddressesFound, match=f"{name} answers at none of its addresses"):
        network.BasicClient(name, echo.addresses(), used, 0, attempts=1)


def test_a_request_cannot_be_repeated(echo: Echo, key: bytes) -> None:
    """The bytes of a request of the past have the digest of another connection's random number."""
    address = ("127.0.0.1", echo.get_port())
    recorded = bytearray()

    class Recording:
        @staticmethod
        def sendall(content: bytes) -> None:
            recorded.extend(content)

    with socket.create_connection(address) as stream:
        nonce = network._read(stream, 32)
        network._send(Recording(), key, b"request", nonce, 4)  # type: ignore[arg-type]
        stream.sendall(recorded)
        assert network._receive(stream, key, b"response", nonce) == 8
    with socket.create_connection(address) as stream:
        network._read(stream, 32)
        stream.sendall(recorded)
        assert stream.recv(1) == b""


def test_notifications_reach_the_listeners(key: bytes) -> None:
    manager, seen = WorkerNotificationManager(), []

    class Listener:
        def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
            seen.append((timestamp, update_res))

    manager.register_listener(Listener())
    service = WorkerNotificationService(key, next(iter(interfaces.get_local_intfs())), manager)
    try:
        client = WorkerNotificationClient(service.addresses(), key, 0)
        client.notify_hosts_updated(5.0, HostUpdateResult.added)
    finally:
        service.shutdown()
    assert seen == [(5.0, HostUpdateResult.added)]


def test_dispatchers_and_workers_find_one_another(key: bytes) -> None:
    service = ComputeService(2, 2, key, interfaces.get_local_intfs())
    try:
        client = ComputeClient(service.addresses(), key)
        found: List[str] = []
        waiting = in_thread(lambda: found.append(client.wait_for_dispatcher_registration(1, 60)))
        client.register_dispatcher(1, "grpc://a:1")
        waiting.join()
        assert found == ["grpc://a:1"]
        client.register_worker_for_dispatcher(1, 0)
        with pytest.raises(TimeoutException, match="dispatcher 1 did not get all of its workers within 0 s"):
            client.wait_for_dispatcher_worker_registration(1, 0)
        client.register_worker_for_dispatcher(1, 1)
        client.wait_for_dispatcher_worker_registration(1, 0)
        with pytest.raises(IndexError, match="there is no dispatcher 2: the service has 2"):
            client.register_dispatcher(2, "grpc://c:1")
        with pytest.raises(ValueError, match="dispatcher 1 is registered at grpc://a:1 and cannot register again"):
            client.register_dispatcher(1, "grpc://b:1")
        ending = in_thread(client.wait_for_shutdown)
        client.shutdown()
        ending.join()
        with pytest.raises(TimeoutException, match="dispatcher 0 was not registered before the service was shut down"):
            client.wait_for_dispatcher_registration(0, 60)
    finally:
        service.shutdown()


def test_local_hosts_are_filtered(monkeypatch: pytest.MonkeyPatch) -> None:
    assert interfaces.filter_local_addresses(["localhost", "127.0.0.1", "192.0.2.1", "no-such-host.invalid"]) == [
        *("192.0.2.1", "no-such-host.invalid")
    ]
    monkeypatch.setattr(socket, "gethostname", lambda: "Node1.example.com")
    own_names = ["node1", "NODE1.", "node1.EXAMPLE.com.", "LOCALHOST."]
    assert interfaces.filter_local_addresses([*own_names, "node1.invalid"]) == ["node1.invalid"]
    if "00000000000000000000000000000001" in Path("/proc/net/if_inet6").read_text():
        assert interfaces.filter_local_addresses(["::1", "2001:db8::1"]) == ["2001:db8::1"]
    assert "127.0.0.1" in interfaces.get_local_host_addresses()
    lo = next(iter(interfaces.get_local_intfs()))
    assert interfaces.get_local_intfs(lo) == {lo}
    assert interfaces.get_driver_ip([lo]) == "127.0.0.1"
    with pytest.raises(RuntimeError, match="none of the interfaces nothing0 has an IPv4 address here"):
        interfaces.get_driver_ip(["nothing0"])


def test_an_ignored_signal_stays_ignored_while_a_job_is_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    previous = {each: signal.getsignal(each) for each in program.FORWARDED}
    monkeypatch.setattr(program, "path_of_launcher", lambda: "/bin/true")
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        event = gloo_run.register_shutdown_event()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        signal.raise_signal(signal.SIGHUP)
        assert program.run_launcher([]) == 0 and not event.is_set()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        signal.raise_signal(signal.SIGINT)
        assert event.is_set()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def test_a_discovery_script_prints_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "hosts.sh"
    script.write_text("#!/bin/sh\necho '# all'; echo b:2 '# x'; echo; echo a; echo b:1\n")
    script.chmod(0o755)
    found = discovery.HostDiscoveryScript(str(script), 2).find_available_hosts_and_slots()
    assert list(found.items()) == [("b", 3), ("a", 2)]
    with pytest.raises(ValueError, match="printed 'a', which is no host and its slots"):
        discovery.HostDiscoveryScript(str(script), None).find_available_hosts_and_slots()
    with pytest.raises(ValueError, match="printed '-V', which is no host"):
        discovery.HostDiscoveryScript("echo -V", 1).find_available_hosts_and_slots()
    with pytest.raises(RuntimeError, match="exited with code 4: broken"):
        discovery.HostDiscoveryScript("echo broken >&2; exit 4", 1).find_available_hosts_and_slots()
    with pytest.raises(RuntimeError, match="did not end within 0.1 s .FARANDOLE_DISCOVERY_TIMEOUT. and was killed"):
        monkeypatch.setenv("FARANDOLE_DISCOVERY_TIMEOUT", "0.1")
        discovery.HostDiscoveryScript("sleep 1000", 1).find_available_hosts_and_slots()
    for limit in ("0", "86401"):
        monkeypatch.setenv("FARANDOLE_DISCOVERY_TIMEOUT", limit)
        with pytest.raises(ValueError, match=f"FARANDOLE_DISCOVERY_TIMEOUT. = '{limit}' is out of range"):
            discovery.HostDiscoveryScript("true", 1).find_available_hosts_and_slots()


def test_hosts_keep_their_order_and_failed_hosts_leave() -> None:
    fixed = discovery.FixedHosts({"a": 2, "b": 2})
    manager = discovery.HostManager(fixed)
    assert manager.update_available_hosts() == HostUpdateResult.added
    assert manager.update_available_hosts() == HostUpdateResult.no_update
    event = manager.get_host_event("a")
    manager.blacklist("a")
    assert event.is_set() and manager.is_blacklisted("a")
    assert manager.current_hosts.host_assignment_order == ["b"]
    fixed.set({"c": 1, "b": 3, "a": 2})
    assert manager.update_available_hosts() == HostUpdateResult.added
    assert manager.current_hosts.host_assignment_order == ["b", "c"]
    assert (manager.current_hosts.count_available_slots(), manager.current_hosts.get_slots("x")) == (4, 0)
    fixed.set({"c": 2})
    assert manager.update_available_hosts() == HostUpdateResult.mixed


def test_a_failed_host_comes_back_after_its_cooldown(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(discovery.time, "monotonic", lambda: now)
    monkeypatch.setattr(discovery.random, "uniform", lambda low, high: 0.5)
    manager = discovery.HostManager(discovery.FixedHosts({"a": 1}), cooldown_range=(10, 30))
    manager.update_available_hosts()
    for delay in (15, 25, 30):  # 10 and 20 and 40, each with half of 10, at most 30
        manager.blacklist("a")
        now += delay - 1
        assert manager.update_available_hosts() == HostUpdateResult.no_update
        now += 1
        assert manager.update_available_hosts() == HostUpdateResult.added
        assert manager.current_hosts.host_assignment_order == ["a"]
    with pytest.raises(ValueError, match=r"the cooldown range \(0, 5\) is out of range"):
        discovery.HostState((0, 5))


def test_the_script_of_a_discovery_object_follows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = discovery.FixedHosts({"a": 1})
    monkeypatch.setattr(driver, "DISCOVER_HOSTS_FREQUENCY_SECS", 0.001)
    with driver.script_of(fixed) as (script, slots):
        printed = discovery.HostDiscoveryScript(script, slots)
        assert printed.find_available_hosts_and_slots() == {"a": 1}
        fixed.set({"b": 2})
        while printed.find_available_hosts_and_slots() != {"b": 2}:  # pytest ends a test that hangs
            pass
    assert not Path(script).exists()


def test_a_discovery_that_fails_later_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(discovery.HostDiscovery):
        answers = iter([{"a": 1}, OSError("busy"), {"a": 2}])

        def find_available_hosts_and_slots(self) -> Any:
            answer = next(self.answers)
            if isinstance(answer, OSError):
                raise answer
            return answer

    monkeypatch.setattr(driver, "DISCOVER_HOSTS_FREQUENCY_SECS", 0.001)
    job = driver.ElasticDriver(None, Failing(), 1, None, timeout=240)
    with pytest.warns(UserWarning, match="the hosts of the job stay as they are, because discovery failed: busy"):
        assert job.wait_for_available_slots(2).host_slots == {"a": 2}
    Failing.answers = iter([OSError("busy")])
    with pytest.raises(OSError, match="busy"):  # at first, it is probably a mistake
        job.wait_for_available_slots(1)


def write_query(path: Path, argument: str, text: str) -> str:
    """A program that prints the text if it is called with this argument last."""
    path.write_text(f'#!/bin/sh\nfor last; do :; done\ntest "$last" = "{argument}" || exit 9\ncat <<END\n{text}END\n')
    path.chmod(0o755)
    return str(path)


def test_facts_about_a_job_of_lsf_come_from_csm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LSB_JOBID", raising=False)
    assert not lsf.LSFUtils.using_lsf()
    monkeypatch.setenv("LSB_JOBID", "5")
    assert lsf.LSFUtils.using_lsf()
    monkeypatch.delenv("CSM_ALLOCATION_ID", raising=False)
    with pytest.raises(RuntimeError, match="CSM_ALLOCATION_ID is not set"):
        lsf.LSFUtils.get_compute_hosts()
    monkeypatch.setenv("CSM_ALLOCATION_ID", "17")
    allocation = "---\nisolated_cores: 1\ncompute_nodes:\n - c1\n - c2\n - c1\nstate: running\n"
    monkeypatch.setattr(lsf, "ALLOCATION_QUERY", write_query(tmp_path / "allocation", "17", allocation))
    host = "Record_1:\n  discovered_cores: 44\n  discovered_sockets: 2\n  discovered_gpus: 6\n"
    monkeypatch.setattr(lsf, "HOST_QUERY", write_query(tmp_path / "host", "c1", host))
    write_query(tmp_path / "ssh", "lscpu", "Architecture: ppc64le\nThread(s) per core:  4\n")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert lsf.LSFUtils.get_compute_hosts() == ["c1", "c2"]
    facts = (lsf.LSFUtils.get_num_cores(), lsf.LSFUtils.get_num_gpus(), lsf.LSFUtils.get_num_processes())
    assert facts == (42, 6, 12)
    assert lsf.LSFUtils.get_num_threads() == 4
    monkeypatch.setattr(lsf, "HOST_QUERY", write_query(tmp_path / "host", "c1", "Record_1:\n"))
    with pytest.raises(RuntimeError, match="has no value discovered_gpus"):
        lsf.LSFUtils.get_num_gpus()
    monkeypatch.setenv("CSM_ALLOCATION_ID", "18")
    with pytest.raises(RuntimeError, match="allocation exited with code 9"):
        lsf.LSFUtils.get_compute_hosts()
    monkeypatch.setattr(lsf, "ALLOCATION_QUERY", str(tmp_path / "missing"))
    with pytest.raises(RuntimeError, match="missing cannot be run"):
        lsf.LSFUtils.get_compute_hosts()
