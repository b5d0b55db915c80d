"""``horovod.runner.launch``: its command line is that of ``horovodrun``, and its results have Horovod's names."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest
from farandole.runner import launch_options, program
from horovod.runner import launch
from launched import DEADLINE_S, FARANDOLE, LAUNCHER, Job, clean_environment, needs_launcher, wait_until

pytestmark = needs_launcher

MODULE = ["-m", "horovod.runner.launch"]
NAMES = """
    command num_proc check_build disable_cache start_timeout nics output_filename verbose config_file ssh_port
    ssh_identity_file fusion_threshold_mb cycle_time_ms cache_capacity hierarchical_allreduce hierarchical_allgather
    torus_allreduce autotune autotune_log_file autotune_warmup_samples autotune_steps_per_sample
    autotune_bayes_opt_max_samples autotune_gaussian_process_noise min_num_proc max_num_proc slots elastic_timeout
    reset_limit cooldown_range timeline_filename timeline_mark_cycles no_stall_check stall_check_warning_time_seconds
    stall_check_shutdown_time_seconds mpi_threads_disable mpi_args tcp_flag binding_args num_nccl_streams
    thread_affinity gloo_timeout_seconds log_level log_with_timestamp prefix_output_with_timestamp hosts hostfile
    host_discovery_script use_gloo use_mpi use_jsrun run_func executable
"""
DESTS = NAMES.split()


@pytest.fixture(autouse=True)
def tested_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "path_of_launcher", lambda: FARANDOLE)


@pytest.fixture
def parse(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    for name in ("HOROVOD_START_TIMEOUT", "HOROVOD_ELASTIC_TIMEOUT", "LSB_JOBID"):
        monkeypatch.delenv(name, raising=False)

    def parsed(*words: str) -> Any:
        monkeypatch.setattr(sys, "argv", ["horovodrun", *words])
        return launch.parse_args()

    return parsed


def run_module(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *MODULE, *words],
        check=False,
        capture_output=True,
        env=clean_environment(),
        text=True,
        timeout=DEADLINE_S,
    )


def names_in_help() -> List[str]:
    """All options that the help of the launcher lists."""
    text = subprocess.run([LAUNCHER, "--help"], check=True, capture_output=True, text=True, timeout=DEADLINE_S).stdout
    lines = [line.strip().split(" ")[0] for line in text.splitlines() if line.startswith("  -")]
    return [name for line in lines for name in line.split(",")]


def names_in_table() -> List[str]:
    parser = launch_options.make_parser(lambda: None)
    return [name for action in parser._actions for name in action.option_strings]


def test_the_table_has_the_options_of_the_help_and_no_visible_other() -> None:
    shown = names_in_help()
    assert len(shown) > 60
    assert sorted(set(shown) - set(names_in_table())) == []
    hidden = set(names_in_table()) - set(shown)
    with_value = {name for option in launch_options.OPTIONS if not option.is_flag for name in option.names}
    for name in hidden:
        # The launcher must know it, although its help does not list it.
        word = f"{name}=1" if name in with_value else name
        ran = subprocess.run(
            [LAUNCHER, "-np", "1", "--verbose", word, "--version"],
            check=False,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert (ran.returncode, ran.stdout) == (0, "0.28.1\n"), f"{name}: {ran.stderr}"


def test_the_result_has_horovods_attributes_and_defaults(parse: Callable[..., Any]) -> None:
    result = parse("-np", "2", "python", "train.py", "-np", "3")
    assert sorted(set(DESTS) - set(vars(result))) == []
    assert result.command == ["python", "train.py", "-np", "3"]
    assert (result.num_proc, result.start_timeout, result.elastic_timeout) == (2, 30, 600)
    assert (result.verbose, result.tcp_flag, result.use_gloo, result.disable_cache) == (False, False, False, False)
    untouched = set(DESTS) - {"command", "num_proc", "start_timeout", "elastic_timeout"}
    assert [name for name in untouched if getattr(result, name) not in (None, False)] == []


def test_values_have_the_types_of_the_options(parse: Callable[..., Any]) -> None:
    result = parse(
        *("-np", "2", "--fusion-threshold-mb", "10", "--cycle-time-ms=2.5", "--no-hierarchical-allreduce"),
        *("--network-interfaces", "eth0,eth1", "--network-interface", "lo", "--thread-affinity", "0,1"),
        *("--blacklist-cooldown-range", "10", "20", "--log-level", "debug", "--log-without-timestamp", "-H", "a:1"),
        *("--min-np", "1", "--slots", "4", "--mpi-args=--x y", "--stall-check", "true"),
    )
    assert (result.fusion_threshold_mb, result.cycle_time_ms, result.hierarchical_allreduce) == (10, 2.5, False)
    assert result.nics == {"eth0", "eth1", "lo"}
    assert (result.thread_affinity, result.cooldown_range, result.log_level) == ("0,1", [10, 20], "DEBUG")
    assert (result.log_with_timestamp, result.hosts, result.no_stall_check) == (False, "a:1", False)
    assert (result.min_num_proc, result.slots, result.mpi_args) == (1, 4, "--x y")
    assert parse("-np", "2", "--thread-affinity", "3", "true").thread_affinity == 3


def test_timeouts_come_from_their_variables(parse: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOROVOD_START_TIMEOUT", "7")
    monkeypatch.setenv("HOROVOD_ELASTIC_TIMEOUT", "8")
    result = parse("-np", "1", "true")
    assert (result.start_timeout, result.elastic_timeout) == (7, 8)


CONFIG = """
controller: gloo
params:
  fusion_threshold_mb: 32
  cycle_time_ms: 1.5
  hierarchical_allreduce: true
autotune:
  log_file: tuned.csv
stall_check:
  enabled: no
library_options:
  thread_affinity: [0, 2]
logging:
  level: info
"""


def test_options_take_precedence_over_the_config_file(parse: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(CONFIG)
    result = parse("-np", "1", "--fusion-threshold-mb", "8", "--config-file", str(path), "--cycle-time-ms", "9", "true")
    assert (result.fusion_threshold_mb, result.cycle_time_ms) == (8, 9)
    assert (result.hierarchical_allreduce, result.autotune, result.no_stall_check) == (True, False, True)
    assert (result.autotune_log_file, result.thread_affinity, result.log_level) == ("tuned.csv", "0,2", "INFO")
    assert (result.use_gloo, result.use_mpi) == (True, False)
    assert parse("-np", "1", "--mpi", "--config-file", str(path), "true").use_gloo is False


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("controller: ddl", ", line 1: controller (controller) = 'ddl' is none of gloo, mpi"),
        (
            "params:\n  cache_capacity: many\n",
            ", line 2: cache capacity (params.cache_capacity) = 'many' is not a whole number",
        ),
        (
            "library_options:\n  thread_affinity: 1,x\n",
            ", line 2: thread affinity (library_options.thread_affinity) = '1,x' is no core id",
        ),
        ("a: 1\nparams: [", ", line 2: end of sequence flow not found"),
        # The launcher accepts fractions of a second here.
        (
            "stall_check: {warning_time_seconds: 1.5}",
            ": stall_check.warning_time_seconds = '1.5' is wrong for --stall-check-warning-time-seconds: ",
        ),
    ],
)
def test_a_wrong_config_file_is_refused(content: str, reason: str, parse: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(content)
    with pytest.raises(ValueError, match=re.escape(f"config file {path}{reason}")):
        parse("-np", "1", "--config-file", str(path), "true")


def test_a_switch_of_the_config_file_may_be_quoted(parse: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("params:\n  hierarchical_allreduce: 'Yes'\nstall_check:\n  enabled: 'off'\n")
    result = parse("-np", "1", "--config-file", str(path), "true")
    assert (result.hierarchical_allreduce, result.no_stall_check) == (True, True)


@pytest.mark.parametrize(
    "words",
    [
        ("--fusion-threshold-mb", "-1"),
        ("--cycle-time-ms", "-0.5"),
        ("--autotune-gaussian-process-noise", "1.5"),
        ("--num-nccl-streams", "-1"),
    ],
)
def test_numbers_out_of_range_raise_value_error(words: List[str], parse: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match=f"{words[0]} {words[1]} is out of range"):
        parse("-np", "1", *words, "true")


@pytest.mark.parametrize(
    "words",
    [
        ("true",),
        ("-np", "two", "true"),
        ("-np", "1", "--gloo", "--mpi", "true"),
        ("-np", "1", "-H", "a:1", "--hostfile", "x", "true"),
        ("-np", "1", "--autotune", "--no-autotune", "true"),
        ("-np", "1", "--log-level", "loud", "true"),
        ("-np", "1", "--blacklist-cooldown-range", "0", "10", "true"),
        ("-np", "1", "--no-such-option", "true"),
    ],
)
def test_a_wrong_command_line_exits_with_2(
    words: List[str], parse: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(*words)
    assert ended.value.code == 2
    assert "horovodrun: error: " in capsys.readouterr().err


def test_deprecated_spellings_warn(parse: Callable[..., Any]) -> None:
    with pytest.warns(DeprecationWarning, match="--log-without-timestamp"):
        assert parse("-np", "1", "--log-hide-timestamp", "true").log_with_timestamp is False
    with pytest.warns(DeprecationWarning, match="--network-interfaces"):
        assert parse("-np", "1", "--network-interface", "a,b", "true").nics == {"a", "b"}


def test_the_words_of_parsed_arguments_give_the_same_arguments(parse: Callable[..., Any]) -> None:
    given = (
        *("-np", "3", "--verbose", "--no-torus-allreduce", "--autotune", "--no-stall-check", "--cycle-time-ms", "2.5"),
        *("--network-interfaces", "lo,eth0", "--blacklist-cooldown-range", "1", "9", "--log-with-timestamp", "--gloo"),
        *("--binding-args=--a b", "--output-filename", "out folder", "--tcp", "sh", "-c", "--", "x"),
    )
    first = parse(*given)
    assert not {"--start-timeout=30", "--elastic-timeout=600"} & set(launch_options.words_of(first))
    assert vars(parse(*launch_options.words_of(first))) == vars(first)


def test_the_report_needs_no_number_of_processes(parse: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert parse("-cb").check_build is True
    launch.run_commandline()
    assert capsys.readouterr().out.startswith("Horovod v0.28.1:\n\nAvailable Frameworks:\n")


def test_the_version_is_printed_alone(parse: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse("-v")
    assert (ended.value.code, capsys.readouterr().out) == (0, "0.28.1\n")


def test_run_commandline_runs_the_job_and_ends_with_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = f'touch {tmp_path}/$HOROVOD_RANK; [ "$HOROVOD_FUSION_THRESHOLD" = 2097152 ] || exit 9'
    words = ["horovodrun", "-np", "2", "--fusion-threshold-mb", "2", "sh", "-c"]
    monkeypatch.setattr(sys, "argv", [*words, script])
    launch.run_commandline()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]
    monkeypatch.setattr(sys, "argv", [*words, "exit 7"])
    with pytest.raises(SystemExit) as ended:
        launch.run_commandline()
    assert ended.value.code == 7


def test_functions_of_the_module_can_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    launched: List[Any] = []
    monkeypatch.setattr(launch, "_run", launched.append)
    monkeypatch.setattr(sys, "argv", ["horovodrun", "-np", "2", "true"])
    launch.run_commandline()
    assert [arguments.command for arguments in launched] == [["true"]]


def test_the_module_is_the_launcher(tmp_path: Path) -> None:
    ran = run_module("-np", "2", "sh", "-c", "echo rank $HOROVOD_RANK; exit 5")
    assert ran.returncode == 5, ran.stderr
    assert "[0]<stdout>:rank 0\n" in ran.stdout and "[1]<stdout>:rank 1\n" in ran.stdout
    assert run_module("--version").stdout == "0.28.1\n"
    refused = run_module("true")
    assert (refused.returncode, "-np/--num-proc" in refused.stderr) == (2, True)


def test_a_signal_to_the_module_ends_the_job(tmp_path: Path) -> None:
    job = Job([*MODULE, "-np", "1", "sh", "-c", "echo pid $$; exec sleep 1000"], program=sys.executable)
    try:
        (worker,) = job.pids(1)
        job.process.send_signal(signal.SIGTERM)
        assert job.end() != 0
        wait_until(lambda: not Path(f"/proc/{worker}").exists(), "the worker has ended")
    finally:
        job.kill()


CALLS: Dict[str, Dict[str, Any]] = {
    "gloo": {"use_gloo": True},
    "gloo by default": {},
    "mpi": {"use_mpi": True},
}


@pytest.mark.parametrize("case", CALLS)
def test_run_controller_calls_the_function_of_the_options(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LSB_JOBID", raising=False)
    monkeypatch.setattr(launch, "mpi_built", lambda verbose=False: True)
    options = {"use_gloo": None, "use_mpi": None, "use_jsrun": None, **CALLS[case]}
    called = launch.run_controller(
        options["use_gloo"],
        lambda: "gloo",
        options["use_mpi"],
        lambda: "mpi",
        options["use_jsrun"],
        lambda: "jsrun",
        verbosity=1,
    )
    assert called == case.split()[0]
    assert launch.is_gloo_used(**options) == (called == "gloo")


def test_controllers_that_cannot_run_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail() -> None:
        raise AssertionError("nothing may be launched")

    monkeypatch.setattr(launch, "mpi_built", lambda verbose=False: False)
    with pytest.raises(ValueError, match="MPI support has not been built"):
        launch.run_controller(None, fail, True, fail, None, fail, 1)
    monkeypatch.setattr(launch, "mpi_built", lambda verbose=False: True)
    monkeypatch.delenv("LSB_JOBID", raising=False)
    with pytest.raises(ValueError, match="LSB_JOBID is not set"):
        launch.run_controller(None, fail, None, fail, True, fail, 1)
    (tmp_path / "jsrun").write_text("#!/bin/sh\n")
    (tmp_path / "jsrun").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("LSB_JOBID", "1")
    assert launch.run_controller(None, fail, None, fail, None, lambda: "jsrun", 1) == "jsrun"
    assert not launch.is_gloo_used()
