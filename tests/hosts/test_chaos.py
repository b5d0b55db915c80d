"""Training while `farandole chaos` disturbs hosts that the tool makes itself: their links, agents and remote shells."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Callable, Iterator, List

import pytest
from namespaces import DEADLINE_S, FARANDOLE, Process

pytestmark = pytest.mark.skipif(shutil.which(FARANDOLE) is None, reason=f"{FARANDOLE} is not there")

# The script trains until the file of its first argument exists.
SCRIPT = """
import os, sys
import numpy, farandole.numpy as hvd

hvd.init()
state = hvd.elastic.NumPyState(weight=numpy.zeros(2), step=0)

@hvd.elastic.run
def train(state):
    print(f"BEGIN of {hvd.size()} pid {os.getpid()}", flush=True)
    done = False
    while not done:
        asked = numpy.array([float(os.path.exists(sys.argv[1]))])
        done = bool(hvd.allreduce(asked, op=hvd.Sum, name="done"))
        state.step += 1
        state.commit()

train(state)
"""


BEYOND_ONE_FAULT = ("--no-compare", "-np", "2", "--min-np", "1", "--deadline", "600")
BEYOND_ONE_LINK = (*BEYOND_ONE_FAULT, "--faults", "link")
CUT_SEED = "1"  # the network is cut off for longer than the launcher waits for the agent


@pytest.fixture
def chaos(permitted: None, tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Starts `farandole chaos` with its own folder for temporary files."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    temporary = tmp_path / "temporary"
    temporary.mkdir(0o700)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("HOROVOD_", "FARANDOLE_"))}
    started: List[Process] = []

    def start(*words: str) -> Process:
        command = [FARANDOLE, "chaos", *words, sys.executable, str(script), str(tmp_path / "enough")]
        environment = {**kept, "TMPDIR": str(temporary), "XDG_RUNTIME_DIR": str(temporary), "OMP_NUM_THREADS": "1"}
        environment["FARANDOLE_LINK_TIMEOUT"] = "12"
        started.append(Process(command, environment))
        return started[-1]

    yield start
    for process in started:
        process.kill()


def assert_all_workers_end(text: str) -> None:
    """Every process that has ever trained ends before the deadline."""
    pids = re.findall(r"BEGIN of \d+ pid (\d+)", text)
    assert pids
    end = time.monotonic() + DEADLINE_S
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < end, f"of {pids} some still run:\n{text}"
        select.select([], [], [], 0.02)


def is_running(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_short_link_failure_loses_no_member_and_after_a_long_one_the_member_returns(
    chaos: Callable[..., Process], tmp_path: Path
) -> None:
    # Seed 343: the link of one host is down for 1.1 s, later that of one for 20.1 s, which is longer than the timeout
    # in `chaos`.
    job = chaos("--seed", "343", "--every", "3", "--duration", "7", *BEYOND_ONE_LINK)
    job.read_until(r"link +member \d+, counted around, for 20.1 s$")
    job.read_until(r"BEGIN of 1 pid (\d+)")
    # The short failure has lost no member.
    assert job.text.partition("BEGIN of 1")[0].count("BEGIN of 2") == 2
    job.read_until(r"BEGIN of 1(.|\n)*(BEGIN of 2(.|\n)*){2}")
    (tmp_path / "enough").touch()
    assert job.end() == 0, job.text
    table = job.text.split("steps lost", 1)[1].splitlines()[1:3]
    short, long = (re.split(r"\s{2,}", line.strip()) for line in table)
    assert short[2] == long[2] == "link"
    assert short[4:7] == ["0", "-", "-"]
    assert int(long[4]) <= 1  # the script commits at every step
    assert float(long[5]) > 0
    assert float(long[6]) > 0
    assert_all_workers_end(job.text)
    assert not [path for path in (tmp_path / "temporary").rglob("*") if not path.is_dir()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_to_the_tool_ends_the_workers_behind_a_link_that_is_down(
    chaos: Callable[..., Process], number: signal.Signals
) -> None:
    job = chaos("--seed", "33", "--every", "0.1", "--duration", "600", *BEYOND_ONE_LINK)
    job.read_until(r"link +member \d+, counted around")
    os.kill(job.pid, number)
    if number == signal.SIGINT:
        assert job.end() == 130, job.text
    assert_all_workers_end(job.text)


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("agent", "host 10.219.7.\\d was lost: "),
        pytest.param(
            "shell",
            "host 10.219.7.\\d was lost: the command that started this agent has ended",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_launcher_starts_another_agent_after_the_death_of_what_leads_to_a_host(
    chaos: Callable[..., Process], tmp_path: Path, kind: str, cause: str
) -> None:
    # One fault, after which the other member goes on; then a new worker joins it, on a busy machine perhaps before the
    # other member has begun alone.
    job = chaos(*BEYOND_ONE_FAULT, "--faults", kind, "--seed", "1", "--every", "3", "--duration", "4.5")
    job.read_until(rf"farandole chaos: .* {kind} +member \d+, counted around$")
    job.read_until(cause)
    job.read_until(rf"{cause}(.|\n)*(BEGIN of 2(.|\n)*){{2}}")
    begun = re.findall(r"BEGIN of \d pid (\d+)", job.text)
    assert {*begun[:2]} & {*begun[2:]} and len({*begun}) > 2, job.text  # one of the first two has begun again
    (tmp_path / "enough").touch()
    assert job.end() == 0, job.text
    row = re.split(r"\s{2,}", job.text.split("steps lost", 1)[1].splitlines()[1].strip())
    assert row[2] == kind and row[3].startswith("rank "), job.text
    assert int(row[4]) <= 1  # the script commits at every step
    assert_all_workers_end(job.text)
    assert not [path for path in (tmp_path / "temporary").rglob("*") if not path.is_dir()]


@pytest.mark.slow
def test_a_host_that_is_cut_off_is_lost_with_its_agent_and_comes_back(
    chaos: Callable[..., Process], tmp_path: Path
) -> None:
    job = chaos(*BEYOND_ONE_FAULT, "--faults", "cut", "--seed", CUT_SEED, "--every", "3", "--duration", "4.5")
    job.read_until(r"cut +member \d+, counted around, for \d+\.\d s$")
    job.read_until(r"host 10.219.7.\d was lost: ")
    job.read_until(r"BEGIN of 1 pid (\d+)(.|\n)*(BEGIN of 2(.|\n)*){2}")
    (tmp_path / "enough").touch()
    assert job.end() == 0, job.text
    assert_all_workers_end(job.text)


def test_chaos_starts_nothing_if_hosts_cannot_be_made(tmp_path: Path) -> None:
    without_rights = ["setpriv", "--bounding-set=-sys_admin"] if os.geteuid() == 0 else []
    command = [*without_rights, FARANDOLE, "chaos", *BEYOND_ONE_LINK, "touch", str(tmp_path / "ran")]
    refused = subprocess.run(command, check=False, capture_output=True, text=True, timeout=DEADLINE_S)
    assert refused.returncode == 2
    assert "need network namespaces, which cannot be made here: root is needed" in refused.stderr
    assert not (tmp_path / "ran").exists()
