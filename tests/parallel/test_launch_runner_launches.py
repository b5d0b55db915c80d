"""Jobs that tools launch by the modules of ``horovod.runner``; the launcher is the small one of these tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List

import horovod
import pytest
from farandole.runner import program
from horovod.runner import _HorovodArgs, gloo_run, launch
from horovod.runner.common.util.settings import Settings
from horovod.runner.common.util.timeout import Timeout
from horovod.runner.elastic import discovery
from horovod.runner.elastic.settings import ElasticSettings
from horovod.runner.util import network as interfaces
from test_launch_functions import FAKE, write_fake


@pytest.fixture(autouse=True)
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert FAKE.exists()
    path = write_fake(tmp_path)
    monkeypatch.setattr(program, "path_of_launcher", lambda: path)


def arguments_of(hosts: str = "", num_proc: int = 1, **options: Any) -> _HorovodArgs:
    arguments = _HorovodArgs()
    arguments.hosts, arguments.num_proc, arguments.verbose, arguments.command = hosts or None, num_proc, True, ["true"]
    for name, value in options.items():
        setattr(arguments, name, value)
    return arguments


def test_gloo_run_launches_a_command(capfd: pytest.CaptureFixture[str]) -> None:
    settings = Settings(hosts="a:1,b:1", num_proc=2, verbose=2, start_timeout=Timeout(60, ""))
    gloo_run.gloo_run(settings, {"lo"}, {**os.environ, "X": "text"}, None, f"exec {sys.executable} -c 'print(5)'")
    out = capfd.readouterr().out
    assert '"--hosts": "a:1,b:1"' in out and '"--network-interfaces": "lo"' in out
    assert out.count("<stdout>:5") == 2
    with pytest.raises(RuntimeError, match="the job of 'exit 3' ended with exit code 3"):
        gloo_run.gloo_run(settings, None, os.environ, None, "exit 3")


def test_the_exit_code_of_a_command_is_that_of_the_process() -> None:
    for options in ({}, {"min_num_proc": 1, "reset_limit": 0}):
        with pytest.raises(SystemExit) as ended:
            launch._run(arguments_of("localhost:1", command=["sh", "-c", "exit 3"], **options))
        assert ended.value.code == 3


def run_elastic_settings() -> None:
    fixed = discovery.FixedHosts({"localhost": 1, "127.0.0.1": 1})
    settings = ElasticSettings(fixed, 1, 2, 600, None, num_proc=1, verbose=2)
    gloo_run.gloo_run_elastic(settings, os.environ, ["true"], None)


def run_hostfile(folder: Path) -> None:
    (folder / "hosts").write_text("localhost slots=1\n127.0.0.1 slots=1\n")
    launch._run(arguments_of(hostfile=str(folder / "hosts")))


HOSTS = "localhost:1,127.0.0.1:1"
LAUNCHES: Dict[str, Callable[[Path], Any]] = {
    "launch._run": lambda folder: launch._run(arguments_of(HOSTS)),
    "launch._run with a host file": run_hostfile,
    "elastic launch._run": lambda folder: launch._run(arguments_of(HOSTS, min_num_proc=1)),
    "horovod.run": lambda folder: horovod.run(os.getpid, hosts=HOSTS, verbose=1),
    "elastic horovod.run": lambda folder: horovod.run(os.getpid, hosts=HOSTS, min_num_proc=1, verbose=1),
    "gloo_run": lambda folder: gloo_run.gloo_run(
        Settings(hosts=HOSTS, num_proc=1, verbose=2), None, os.environ, None, "true"
    ),
    "gloo_run_elastic": lambda folder: run_elastic_settings(),
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_hosts_that_the_filter_returns_are_reached_by_ssh(
    name: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The filter is looked up at each call."""
    LAUNCHES[name](tmp_path)
    out = capfd.readouterr().out
    assert "--num-proc" in out and "--remote-hosts" not in out
    monkeypatch.setattr(interfaces, "filter_local_addresses", lambda names: [name for name in names if name[0] == "l"])
    LAUNCHES[name](tmp_path)
    assert '"--remote-hosts": "localhost"' in capfd.readouterr().out


def test_an_elastic_job_is_launched_on_its_hosts(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = arguments_of(min_num_proc=1)
    with pytest.raises(ValueError, match="an elastic job needs to know its hosts"):
        launch._run_elastic(arguments)
    arguments.hosts = "localhost:1"
    launch._run_elastic(arguments)
    assert '"--min-np": "1"' in capfd.readouterr().out.replace("--min-num-proc", "--min-np")
    monkeypatch.setattr(launch, "_run_elastic", lambda args: ("replaced", args))
    assert launch._run(arguments) == ("replaced", arguments)


def test_gloo_run_elastic_runs_a_function_on_discovered_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    def read_hosts() -> Any:
        return int(os.environ["HOROVOD_RANK"]), os.environ["X"]

    fixed = discovery.FixedHosts({"a": 1, "b": 1})
    settings = ElasticSettings(fixed, 1, 2, 600, None, num_proc=2, verbose=2)
    environment: Dict[str, str] = {**os.environ, "X": "text"}
    assert gloo_run.gloo_run_elastic(settings, environment, read_hosts, None) == [(0, "text")]
    assert "--host-discovery-script" in capsys.readouterr().out


# ---- functions of launch and gloo_run that tools replace ----


def test_a_job_is_launched_by_the_controller_that_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """``run_controller`` gets the functions that launch, also for ``horovod.run``."""
    seen: List[Any] = []

    def choose(use_gloo: Any, gloo: Any, use_mpi: Any, mpi: Any, use_jsrun: Any, jsrun: Any, verbosity: Any) -> Any:
        seen.append((use_gloo, use_mpi, use_jsrun, verbosity))
        return gloo()

    monkeypatch.setattr(launch, "run_controller", choose)
    assert horovod.run(lambda: int(os.environ["HOROVOD_RANK"]), num_proc=2, use_mpi=True, verbose=1) == [0, 1]
    launch._run(arguments_of("localhost:1", use_jsrun=True))
    assert [tuple(bool(each) for each in one) for one in seen] == [
        (False, True, False, True),
        (False, False, True, True),
    ]


def test_gloo_run_gets_settings_variables_and_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: List[Any] = []
    monkeypatch.setattr(gloo_run, "gloo_run", lambda *given: seen.append(given))
    launch._run(arguments_of("a:2", 2, fusion_threshold_mb=3, start_timeout=50, nics="lo", mpi_args="-x A"))
    ((settings, nics, env, server_ip, command),) = seen
    assert (settings.hosts, settings.num_proc, settings.verbose, settings.run_func_mode) == ("a:2", 2, 2, False)
    assert (settings.extra_mpi_args, settings.nics, nics) == ("-x A", ["lo"], ["lo"])
    assert 0 < settings.start_timeout.remaining() <= 50
    assert (env["HOROVOD_FUSION_THRESHOLD"], env["PATH"]) == (str(3 << 20), os.environ["PATH"])
    assert (server_ip, command) == ("127.0.0.1", ["true"])


def test_options_without_a_setting_reach_the_launcher(capfd: pytest.CaptureFixture[str]) -> None:
    launch._run(arguments_of("localhost:1", agent_port=5, cycle_time_ms=2.5, stdin=0, disable_cache=True))
    out = capfd.readouterr().out
    for option in ('"--agent-port": "5"', '"--cycle-time-ms": "2.5"', '"--stdin": "0"', '"--disable-cache": ""'):
        assert option in out


def test_hosts_are_checked_by_a_function_that_a_tool_sets(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = launch._check_all_hosts_ssh_successful
    assert original([]) and capfd.readouterr().out == ""
    assert original(["::5", "b"], 22, "key")  # the small launcher starts "true" for each
    seen: List[Any] = []

    def check(*given: Any) -> bool:
        seen.append(given)
        return len(seen) == 1

    monkeypatch.setattr(launch, "_check_all_hosts_ssh_successful", check)
    arguments = arguments_of("localhost:1,b.invalid:1", ssh_port=22, ssh_identity_file="key")
    launch._run(arguments)
    with pytest.raises(RuntimeError, match=r"could not connect to some hosts via ssh: they are among b\.invalid$"):
        launch._run(arguments)
    launch._run(arguments_of("localhost:1"))  # there is nothing to check
    assert seen == [(["b.invalid"], 22, "key")] * 2
