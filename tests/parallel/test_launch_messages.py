"""Messages of the launcher: commands that cannot be started, settings without effect, and the events of a job.

A plain pytest runs this file.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Optional

import pytest
from launched import DEADLINE_S, FARANDOLE, LAUNCHER, clean_environment, needs_launcher, without_waits

pytestmark = needs_launcher

INIT = "import farandole.numpy as hvd; hvd.init(); print('rank', hvd.rank(), flush=True)"


def run(command: List[str], folder: Optional[Path] = None, **variables: str) -> subprocess.CompletedProcess[str]:
    environment: Dict[str, str] = {**clean_environment(), **variables}
    return subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        env={name: value for name, value in environment.items() if value},
        timeout=DEADLINE_S,
        start_new_session=True,
    )


@pytest.mark.parametrize(
    "command, code, message",
    [
        ("hello.py", 127, 'farandole: hello.py: command not found; did you mean "python hello.py"?'),
        (
            "./hello.py",
            126,
            'farandole: ./hello.py: permission denied: the file is not executable; did you mean "python ./hello.py"?',
        ),
        ("no-such-command", 127, "farandole: no-such-command: command not found"),
    ],
)
@pytest.mark.parametrize("elastic", [False, True], ids=["fixed", "elastic"])
def test_a_command_that_cannot_be_started_is_reported_once(
    command: str, code: int, message: str, elastic: bool, tmp_path: Path
) -> None:
    (tmp_path / "hello.py").write_text("print('hello')\n")
    options = ["--min-np", "2", "-H", "localhost:4"] if elastic else []
    job = run([LAUNCHER, "-np", "4", *options, command], tmp_path)
    assert (job.returncode, job.stdout, job.stderr) == (code, "", message + "\n")


def test_a_failure_to_execute_the_command_is_reported_once(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    job = run([LAUNCHER, "-np", "4", str(script)], OMP_NUM_THREADS="1")
    assert job.returncode == 126
    # The launcher reports it at once and as the cause in its final report, but not for each of the four processes.
    assert job.stderr.count("could not be started") == 2, job.stderr
    assert job.stderr.count("bad interpreter") == 2 and "Full output" not in job.stderr, job.stderr


def test_a_launched_job_reports_settings_without_effect_and_unknown_variables_once(tmp_path: Path) -> None:
    config = tmp_path / "job.yaml"
    config.write_text("autotune:\n  warmup_samples: 2\nlibrary_options:\n  num_ncl_streams: 2\n")
    options = ["--mpi-args=x", "--config-file", str(config)]
    job = run(
        [LAUNCHER, "-np", "2", *options, sys.executable, "-c", INIT],
        HOROVOD_CCL_CACHE="1",
        HOROVOD_FUSION_TRESHOLD="1",
    )
    assert job.returncode == 0, job.stderr
    lines = [line for line in without_waits(job.stderr).splitlines() if "NOTICE" not in line]
    program = Path(LAUNCHER).name
    assert sorted(lines) == sorted(
        [
            f"{program}: WARNING: config file {config}, line 4: there is no setting 'library_options.num_ncl_streams'; "
            "did you mean 'library_options.num_nccl_streams'?",
            f"{program}: WARNING: HOROVOD_CCL_CACHE and autotune.warmup_samples "
            "(config file) have no effect in this build",
            f"{program}: WARNING: --mpi-args has no effect: only --mpi and --jsrun start the processes by MPI",
            f"{program}: WARNING: unknown environment variable: HOROVOD_FUSION_TRESHOLD (did you mean "
            "HOROVOD_FUSION_THRESHOLD?); nothing reads it",
        ]
    )


@pytest.mark.parametrize(
    "content, line, reason",
    [
        ("params:\n  cache_capacity: many\n", 2, "(params.cache_capacity) = 'many'"),
        ("timeline:\n  filename: [a", 2, "end of sequence flow not found"),
        ("- params\n", 1, "no 'key: value' lines"),
    ],
    ids=["wrong-type", "no-yaml", "no-map"],
)
def test_a_config_file_that_cannot_be_used_ends_the_launcher_with_2_and_its_place(
    content: str, line: int, reason: str, tmp_path: Path
) -> None:
    config = tmp_path / "job.yaml"
    config.write_text(content)
    job = run([LAUNCHER, "-np", "1", "--config-file", str(config), "echo", "started"])
    assert (job.returncode, job.stdout) == (2, "")
    assert f"{config}, line {line}" in job.stderr and reason in job.stderr, job.stderr


def test_init_reports_settings_without_effect_and_unknown_variables_without_a_launcher() -> None:
    job = run([sys.executable, "-c", INIT], HOROVOD_AUTOTUNE="1", FARANDOLE_FAST_PAHT="0")
    assert job.returncode == 0, job.stderr
    assert len(re.findall("HOROVOD_AUTOTUNE has no effect in this build", job.stderr)) == 1, job.stderr
    assert len(re.findall(r"FARANDOLE_FAST_PAHT \(did you mean FARANDOLE_FAST_PATH\?\)", job.stderr)) == 1, job.stderr


def test_the_info_log_level_reports_the_events_of_a_job() -> None:
    job = run([LAUNCHER, "-np", "2", "--log-level", "info", sys.executable, "-c", INIT])
    assert job.returncode == 0, job.stderr
    events = [line.split("]: ", 1)[1] for line in job.stdout.splitlines() if re.match(r"\[.* I [a-z_]+\.cpp:", line)]
    log = "\n".join(events)
    assert re.fullmatch(
        r"a job of 2 processes on localhost:2; the rendezvous is at 127\.0\.0\.1:\d+\n"
        r"all 2 ranks started\n"
        r"all 2 ranks initialised in \d+ ms \(generation 1\)\n"
        r"the job ended with exit code 0 after \d+\.\d s",
        log,
    ), job.stdout
    assert re.search(r"I [a-z_]+\.cpp", run([LAUNCHER, "-np", "1", "true"]).stdout) is None


def test_more_workers_than_cores_cause_a_notice_and_a_setting_limits_their_threads() -> None:
    show = ["sh", "-c", "echo threads ${OMP_NUM_THREADS:-unset}"]
    on_one_core = ["taskset", "-c", str(min(os.sched_getaffinity(0))), LAUNCHER, "-np", "2"]
    plain = run([*on_one_core, *show], OMP_NUM_THREADS="")
    assert "farandole: NOTICE: 2 workers share 1 core, and OMP_NUM_THREADS is not set" in plain.stderr
    assert plain.stdout.count("threads unset") == 2
    limited = run([*on_one_core, "--set-omp-num-threads", *show], OMP_NUM_THREADS="")
    assert (limited.stderr, limited.stdout.count("threads 1")) == ("", 2)
    chosen = run([*on_one_core, *show], OMP_NUM_THREADS="3", FARANDOLE_SET_OMP_NUM_THREADS="1")
    assert (chosen.stderr, chosen.stdout.count("threads 3")) == ("", 2)


def test_every_command_has_help_with_an_example() -> None:
    for command in ("run", "rendezvous", "drain", "chaos", "build-xla", "check", "settings", "operations"):
        help_text = run([FARANDOLE, command, "--help"])
        assert help_text.returncode == 0, (command, help_text.stderr)
        assert f"farandole {command}" in help_text.stdout and "xample" in help_text.stdout, (command, help_text.stdout)
    mistyped = run([FARANDOLE, "chek"])
    assert mistyped.returncode == 2 and not mistyped.stdout
    message = "farandole: error: there is no command 'chek'; did you mean 'check'?; farandole --help lists all\n"
    assert mistyped.stderr == message


@pytest.mark.parametrize(
    "name, meant", [("horovod.pytorch", "horovod.torch"), ("farandole.tensorfow", "farandole.tensorflow")]
)
def test_an_import_of_a_mistyped_framework_suggests_the_right_module(name: str, meant: str) -> None:
    script = f"""
import importlib.util
try:
    import {name}
except ModuleNotFoundError as problem:
    assert problem.name == {name!r}, problem.name
    print(problem)
assert importlib.util.find_spec("farandole.spark") is None and importlib.util.find_spec("horovod.ray") is None
"""
    imported = run([sys.executable, "-c", script])
    assert imported.stdout == f"No module named {name!r}; did you mean {meant!r}?\n", imported.stderr
