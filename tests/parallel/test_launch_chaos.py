"""Training under the chaos tool, which draws faults from a seed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Callable, Iterator, List

import pytest
from launched import FARANDOLE, Job, assert_gone, needs_launcher, wait_until

pytestmark = needs_launcher

# Trains until the file `enough` exists; weights do not depend on the number of workers. The test creates the file
# when it has seen the expected output.
SCRIPT = """
import os, sys, time
import numpy, farandole.numpy as hvd

enough = sys.argv[1]
hvd.init()
state = hvd.elastic.NumPyState(weight=numpy.ones(2), step=0)

@hvd.elastic.run
def train(state):
    print(f"BEGIN of {hvd.size()} pid {os.getpid()}", flush=True)
    done = False
    while not done:
        asked = numpy.array([float(os.path.exists(enough))])
        done = bool(hvd.allreduce(asked, op=hvd.Sum, name="done"))
        state.step += 1
        state.commit()

train(state)
if hvd.rank() == 0:
    print(f"WEIGHTS {state.weight.sum():.3f}", flush=True)
"""


# Keeps the total batch for any number of workers; a careless script halves its rate after each reset. Half-way,
# except in the first run, the script waits for the file `enough`. Every run has its own file of events.
WEIGHING = """
import os, sys
import numpy, farandole.numpy as hvd

enough, kind = sys.argv[1:]
hvd.init()
runs = os.path.join(os.path.dirname(enough), "runs")
own_run = os.path.basename(os.path.dirname(os.environ["FARANDOLE_ELASTIC_EVENTS"]))
os.makedirs(os.path.join(runs, own_run), exist_ok=True)
disturbed = len(os.listdir(runs)) > 1
parts = hvd.max_size()
inputs = numpy.random.default_rng(7).standard_normal((40, parts, 5, 4))
state = hvd.elastic.NumPyState(weights=numpy.zeros(4), step=0)
rate = 0.01

def gradient_of(batch):
    share = numpy.zeros(4)
    for part in batch[hvd.rank()::hvd.size()]:
        share += 2.0 * (part @ state.weights - part.sum(1)) @ part / len(part)
    return hvd.allreduce(share, op=hvd.Sum, name="gradient") / parts

def learn_less():
    global rate
    rate /= 2

if kind == "careless":
    state.register_reset_callbacks([learn_less])

@hvd.elastic.run
def train(state):
    print(f"BEGIN of {hvd.size()} pid {os.getpid()}", flush=True)
    while state.step < len(inputs):
        while disturbed and state.step == 20:
            asked = numpy.array([float(os.path.exists(enough))])
            if hvd.allreduce(asked, op=hvd.Sum, name="asked") == hvd.size():
                break
            state.commit()
        state.weights -= rate * gradient_of(inputs[state.step])
        state.step += 1
        state.commit()

train(state)
if hvd.rank() == 0:
    print(f"WEIGHTS {' '.join(f'{weight:.6f}' for weight in state.weights.tolist())}", flush=True)
"""
EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "pytorch_mnist_elastic.py"


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir(0o700)
    return folder


IGNORED = (signal.SIGHUP, signal.SIGINT)


@pytest.fixture
def signals_ignored() -> Iterator[None]:
    """Processes that the test starts ignore them, as under nohup and in the background of a script."""
    inherited = {each: signal.signal(each, signal.SIG_IGN) for each in IGNORED}
    yield
    for each, handler in inherited.items():
        signal.signal(each, handler)


@pytest.fixture
def start(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Job]]:
    """Starts ``farandole chaos`` with these arguments."""
    jobs: List[Job] = []
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(temporary))

    def run(*words: str) -> Job:
        jobs.append(Job(["chaos", *words], program=FARANDOLE))
        return jobs[-1]

    yield run
    for job in jobs:
        job.kill()


@pytest.fixture
def chaos(start: Callable[..., Job], tmp_path: Path) -> Callable[..., Job]:
    """Trains until the file `enough` exists, without a comparison of weights."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    return lambda *words: start("--no-compare", *words, sys.executable, str(script), str(tmp_path / "enough"))


def trained(job: Job) -> List[int]:
    """Process ids of all workers that have begun to train."""
    return [int(pid) for pid in re.findall(r"BEGIN of \d+ pid (\d+)", job.text)]


def rows(text: str) -> List[List[str]]:
    """The rows of the table: run, time, fault, target, steps lost, detection, regroup, note."""
    table = text.split("steps lost", 1)[1].split("\n\n", 1)[0]
    return [re.split(r"\s{2,}", line.strip()) for line in table.splitlines()[1:]]


def test_the_seed_determines_the_faults() -> None:
    command = [FARANDOLE, "chaos", "--dry-run", "--duration", "60", "--every", "5"]
    outputs = [
        subprocess.run([*command, "--seed", seed], check=True, capture_output=True, text=True).stdout
        for seed in ("1", "1", "2")
    ]
    assert outputs[0] == outputs[1] != outputs[2]
    assert 8 <= len(outputs[0].splitlines()) <= 24


def test_a_job_continues_under_faults_and_ignored_signals_and_leaves_no_processes_or_files(
    signals_ignored: None, chaos: Callable[..., Job], tmp_path: Path, temporary: Path
) -> None:
    # A kill and, nine seconds later, a drain; in the end a new worker replaces each of the two.
    faults = ("--seed", "72", "--duration", "14", "--every", "6", "--deadline", "600", "--faults", "kill,drain")
    job = chaos(*faults, "-np", "3", "--min-np", "1")
    job.read_until(lambda text: re.search(r"drain +member", text) is not None and len(set(trained(job))) >= 5)
    for each in IGNORED:
        job.process.send_signal(each)
    (tmp_path / "enough").touch()
    assert job.end() == 0, job.text
    kill, drain = rows(job.text)
    assert kill[2] == "kill" and kill[3].startswith("rank ")
    assert int(kill[4]) <= 1  # the script commits at every step
    assert kill[5].isdigit()  # the tool has seen that the loss was detected; else it prints "-"
    assert int(kill[6]) > 0
    assert drain[2] == "drain"
    assert drain[4] == "0"
    assert "WEIGHTS 2.000" in job.text
    assert_gone(trained(job))
    assert not [path for path in temporary.rglob("*") if not path.is_dir()]
    assert not list(temporary.glob("farandole-chaos-*"))


@pytest.mark.slow
def test_training_continues_while_the_rendezvous_restarts(
    chaos: Callable[..., Job], tmp_path: Path, temporary: Path
) -> None:
    # Seed 5: the rendezvous is away for 3 s, in which a busy machine may run no member.
    for _ in range(4):
        job = chaos("--seed", "5", "--duration", "5", "--every", "3", "--faults", "rendezvous", "-np", "2")
        job.read_until(lambda text: text.count("the rendezvous is back (epoch 2.") >= 2)
        (tmp_path / "enough").touch()
        assert job.end() == 0, job.text
        (tmp_path / "enough").unlink()
        (row,) = rows(job.text)
        assert row[2:7] == ["rendezvous", "the rendezvous", "0", "-", "-"]
        if row[7] != "0 commits meanwhile":
            break
    assert re.fullmatch(r"[1-9]\d* commits? meanwhile", row[7])
    assert not [path for path in temporary.rglob("*") if not path.is_dir()]


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, marks=pytest.mark.slow),
    ],
)
def test_a_signal_to_the_tool_ends_the_job(chaos: Callable[..., Job], temporary: Path, number: signal.Signals) -> None:
    job = chaos("--faults", "stop", "--duration", "600", "--deadline", "0", "-np", "2")
    job.read_until(lambda text: len(re.findall(r"BEGIN of 2 pid \d+\n", text)) >= 2)
    job.process.send_signal(number)
    assert job.end() == 128 + number, job.text
    assert_gone(trained(job))
    assert not list(temporary.glob("farandole-chaos-*"))


def test_a_script_that_exceeds_the_deadline_is_ended(chaos: Callable[..., Job]) -> None:
    job = chaos("--faults", "stop", "--duration", "0.1", "--deadline", "0", "-np", "1")
    assert job.end() == 124, job.text
    assert "had to be ended" in job.text
    assert_gone(trained(job))


@pytest.mark.parametrize(
    ("kind", "code", "result"),
    [
        pytest.param("kept", 0, "weights: equal to those of the undisturbed run\n", marks=pytest.mark.slow),
        ("careless", 3, "weights: not equal. Undisturbed: "),
    ],
)
def test_weights_are_compared_with_those_of_an_undisturbed_run(
    start: Callable[..., Job], tmp_path: Path, kind: str, code: int, result: str
) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(WEIGHING))
    flags = ("--seed", "9", "--duration", "4", "--every", "3", "--faults", "kill", "-np", "3", "--min-np", "1")
    job = start("--compare", *flags, sys.executable, str(script), str(tmp_path / "enough"), kind)
    # After the fault all members begin anew, those of the first generation and perhaps the replacement at once.
    job.read_until(lambda text: text.partition("now under faults")[2].count("BEGIN of ") > 3)
    (tmp_path / "enough").touch()
    assert job.end() == code, job.text
    assert result in job.text
    assert len(rows(job.text)) == 1
    assert_gone(trained(job))


@pytest.mark.slow
@pytest.mark.timeout(1000)
def test_the_example_reaches_the_accuracy_of_its_undisturbed_run(
    start: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent) + os.pathsep + os.environ["PATH"])
    flags = ("--seed", "1", "--duration", "3", "--every", "1", "--deadline", "300", "--tolerance", "0.1")
    job = start(*flags, str(EXAMPLE), "--epochs", "3")
    job.read_until(lambda text: "accuracy: " in text, deadline_s=600)
    assert job.end() == 0, job.text
    assert "4 workers" in job.text
    assert rows(job.text), job.text
    assert "accuracy: reached. Undisturbed: 0." in job.text


def test_a_requested_comparison_fails_if_the_script_prints_no_weights(
    start: Callable[..., Job], tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT.replace("WEIGHTS", "weights")))
    (tmp_path / "enough").touch()
    words = ("-np", "1", "--duration", "0.1", sys.executable, str(script), str(tmp_path / "enough"))
    asked_for = start("--compare", *words)
    by_default = start(*words)
    assert asked_for.end() == 3, asked_for.text
    assert by_default.end() == 0, by_default.text
    assert "There is nothing to compare" in asked_for.text


def test_sigkill_of_the_tool_ends_the_job_and_its_rendezvous_and_leaves_no_files(
    chaos: Callable[..., Job], temporary: Path
) -> None:
    job = chaos("--faults", "rendezvous", "--duration", "600", "-np", "2")
    job.read_until(lambda text: len(re.findall(r"BEGIN of 2 pid \d+\n", text)) >= 2)
    started = descendants(job.process.pid)
    assert len(started) >= 5  # keeper, launcher, rendezvous, workers
    job.process.kill()
    assert_gone([*started, *trained(job)])
    wait_until(lambda: not list(temporary.glob("farandole-chaos-*")), "the folder is removed")


def descendants(pid: int) -> List[int]:
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return children + [descendant for child in children for descendant in descendants(child)]
