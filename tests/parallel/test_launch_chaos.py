"""Training under faults that are drawn from a seed."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Callable, Iterator, List

import pytest
from launched import FARANDOLE, Job, assert_gone, needs_launcher

pytestmark = needs_launcher

# Trains until a file says that it is enough: weights do not depend on the number of workers. The file comes when
# the test has seen what it waits for.
SCRIPT = """
import os, sys, time
import torch, horovod.torch as hvd

enough = sys.argv[1]
hvd.init()
state = hvd.elastic.TorchState(model=torch.nn.Linear(2, 1), step=0)
with torch.no_grad():
    state.model.weight.fill_(1.0)
state.save()

@hvd.elastic.run
def train(state):
    print(f"BEGIN of {hvd.size()} pid {os.getpid()}", flush=True)
    done = False
    while not done:
        asked = torch.tensor([float(os.path.exists(enough))])
        done = bool(hvd.allreduce(asked, op=hvd.Sum, name="done"))
        state.step += 1
        state.commit()

train(state)
if hvd.rank() == 0:
    print(f"WEIGHTS {state.model.weight.sum().item():.3f}", flush=True)
"""


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir(0o700)
    return folder


@pytest.fixture
def chaos(tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Job]]:
    """Starts the tool."""
    jobs: List[Job] = []
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(temporary))
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))

    def start(*words: str) -> Job:
        jobs.append(Job(["chaos", *words, sys.executable, str(script), str(tmp_path / "enough")], program=FARANDOLE))
        return jobs[-1]

    yield start
    for each in jobs:
        each.kill()


def trained(job: Job) -> List[int]:
    """Process ids of all who have begun."""
    return [int(each) for each in re.findall(r"BEGIN of \d+ pid (\d+)", job.text)]


def rows(text: str) -> List[List[str]]:
    """Of the table: time, fault, who, steps, told, training."""
    table = text.split("steps lost", 1)[1].split("\n\n", 1)[0]
    return [re.split(r"\s{2,}", line.strip()) for line in table.splitlines()[1:]]


def test_the_seed_tells_the_faults() -> None:
    command = [FARANDOLE, "chaos", "--dry-run", "--duration", "60", "--every", "5"]
    said = [
        subprocess.run([*command, "--seed", seed], check=True, capture_output=True, text=True).stdout
        for seed in ("1", "1", "2")
    ]
    assert said[0] == said[1] != said[2]
    assert 8 <= len(said[0].splitlines()) <= 24


def test_a_job_goes_on_under_faults_and_nothing_stays_behind(
    chaos: Callable[..., Job], tmp_path: Path, temporary: Path
) -> None:
    # A kill and, two seconds later, a drain; for each somebody new comes in the end.
    flags = [
        "--seed",
        "29",
        "--duration",
        "7",
        "--every",
        "3",
        "--deadline",
        "120",
        "--faults",
        "kill,drain",
        "-np",
        "3",
        "--min-np",
        "1",
    ]
    job = chaos(*flags)
    job.read_until(lambda text: re.search(r"drain +member", text) is not None and len(set(trained(job))) >= 5)
    (tmp_path / "enough").touch()
    assert job.end() == 0, job.text
    kill, drain = rows(job.text)
    assert kill[1:3] == ["kill", kill[2]] and kill[2].startswith("rank ")
    assert int(kill[3]) <= 1  # it commits at every step
    assert float(kill[4]) >= 0
    assert float(kill[5]) >= 0
    assert drain[1] == "drain"
    assert "WEIGHTS 2.000" in job.text
    assert_gone(trained(job))
    assert not [each for each in temporary.rglob("*") if not each.is_dir()]
    assert not list(temporary.glob("farandole-chaos-*"))


def test_training_goes_on_without_the_rendezvous_which_comes_back(
    chaos: Callable[..., Job], tmp_path: Path, temporary: Path
) -> None:
    job = chaos("--seed", "1", "--duration", "5", "--every", "3", "--faults", "rendezvous", "-np", "2")
    job.read_until(lambda text: text.count("the rendezvous is back (epoch 2.") == 2)
    (tmp_path / "enough").touch()
    assert job.end() == 0, job.text
    (row,) = rows(job.text)
    assert row[1:6] == ["rendezvous", "the rendezvous", "0", "-", "-"]
    commits = re.fullmatch(r"(\d+) commits meanwhile", row[6])
    assert commits is not None and int(commits.group(1)) > 0
    assert not [each for each in temporary.rglob("*") if not each.is_dir()]


def test_interrupted_it_ends_the_job(chaos: Callable[..., Job], temporary: Path) -> None:
    job = chaos("--faults", "stop", "--duration", "600", "--deadline", "0", "-np", "2")
    job.read_until(lambda text: len(re.findall(r"BEGIN of 2 pid", text)) == 2)
    job.process.send_signal(signal.SIGINT)
    assert job.end() == 130, job.text
    assert_gone(trained(job))
    assert not list(temporary.glob("farandole-chaos-*"))


def test_a_script_that_does_not_end_is_ended(chaos: Callable[..., Job]) -> None:
    job = chaos("--faults", "stop", "--duration", "0.1", "--deadline", "0", "-np", "1")
    assert job.end() == 124, job.text
    assert "had to be ended" in job.text
    assert_gone(trained(job))
