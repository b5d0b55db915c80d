"""Jobs that fail are explained by the one command that the launcher prints: it names the rank and the cause."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import pytest
from elastic_jobs import TRAINING, beginnings
from launched import (
    DEADLINE_S,
    FARANDOLE,
    PRELUDE,
    TIMEOUTS_S,
    Job,
    clean_environment,
    launch,
    needs_launcher,
    stall_shutdown,
    stop,
    wait_until,
)

__all__ = ["launch"]  # the fixture

pytestmark = needs_launcher

LAST_LINE = re.compile(r"^farandole: what each rank was doing: farandole explain (\S+)\n\Z", re.M)


@pytest.fixture(autouse=True)
def own_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands find only the jobs of the test."""
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "run"))


@pytest.fixture(autouse=True)
def dumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the launcher writes records."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "farandole" / "dumps"


def farandole(*words: str, code: Optional[int] = 0) -> str:
    """What the command prints, which must exit with this code; None: with any."""
    ran = subprocess.run(
        [FARANDOLE, *words],
        check=False,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_S,
    )
    assert code in (None, ran.returncode), ran.stdout
    return ran.stdout


def explain(*arguments: str, code: int = 0) -> str:
    return farandole("explain", *arguments, code=code)


def folder_of(job: Job) -> Path:
    """The folder that the last line of a failed job names."""
    assert job.end() != 0, job.text
    line = LAST_LINE.search(job.text)
    assert line, job.text
    return Path(line.group(1))


def explained(launch: Callable[..., Job], ranks: int, script: str, cause: str) -> Path:
    """The records of a job that a stall shutdown ends, which must be explained with this cause."""
    for timeout_s in TIMEOUTS_S:
        folder = folder_of(launch(ranks, script, flags=stall_shutdown(timeout_s)))
        if re.search(f"Cause:\n  {cause}\n\n", explain(str(folder))):
            return folder
    pytest.fail(explain(str(folder)))


@pytest.mark.slow
def test_ranks_that_call_in_different_orders_are_explained_after_a_stall_shutdown(
    launch: Callable[..., Job], dumps: Path
) -> None:
    script = PRELUDE + (
        "hvd.allreduce(numpy.ones(4), name='first')\n"
        "for name in ['a', 'b'] if hvd.rank() == 0 else ['b', 'a']:\n"
        "    hvd.allreduce(numpy.ones(4), name=name)\n"
    )
    cause = "rank 0 waited for allreduce.a, rank 1 for allreduce.b: they call in different orders."
    folder = explained(launch, 2, script, re.escape(cause))
    assert folder.parent == dumps
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert sorted(file.name for file in folder.iterdir()) == ["rank-0.events", "rank-1.events"]
    text = explain(str(folder))
    assert "stall shutdown time (HOROVOD_STALL_SHUTDOWN_TIME_SECONDS) = " in text
    assert re.search(r"allreduce\.a \(allreduce, 32 B\), for \d+\.\d s: called by rank 0; not by rank 1\n", text), text

    facts: Dict[str, Any] = json.loads(explain("--json", str(folder)))
    assert facts["causes"] == [cause]
    assert [rank["work"] for rank in facts["ranks"]] == ["waiting", "waiting"]

    # What is missing is said, and the rest is explained.
    (folder / "rank-1.events").write_bytes((folder / "rank-1.events").read_bytes()[:1000])
    text = explain(str(folder), code=2)
    assert f"{folder}/rank-1.events is no complete event record: it has 1000 bytes" in text
    assert "all ranks with a record had called allreduce.a, so rank 1 had not called it" in text


def test_a_rank_that_was_killed_is_explained(launch: Callable[..., Job]) -> None:
    # A process that a worker starts does not inherit the memory of the record.
    script = PRELUDE + (
        "import subprocess\n"
        "number = os.environ['FARANDOLE_RECORDER_FD']\n"
        "assert os.path.exists(f'/proc/self/fd/{number}')\n"
        "child = subprocess.run(['ls', '/proc/self/fd'], close_fds=False, stdout=subprocess.PIPE, text=True)\n"
        "print('INHERITED', number in child.stdout.split(), flush=True)\n"
        "hvd.allreduce(numpy.ones(4), name='first')\n"
        "if hvd.rank() == 1:\n"
        "    signal.pause()\n"
        "hvd.allreduce(numpy.ones(4), name='second')\n"
    )
    job = launch(3, script)
    job.read_until(lambda text: text.count("INHERITED") >= 3)
    waiting = [rf"rank {rank} on \S+ has waited for allreduce\.second for " for rank in (0, 2)]
    wait_until(lambda: all(re.search(state, explain()) for state in waiting), "ranks 0 and 2 wait")
    victim = re.search(r"\[1\]<stdout>:pid (\d+)\n", job.text)
    assert victim, job.text
    os.kill(int(victim.group(1)), signal.SIGKILL)
    folder = folder_of(job)
    assert job.process.returncode == 128 + signal.SIGKILL
    assert job.text.count("INHERITED False") == 3, job.text
    text = explain(str(folder))
    assert re.search(
        r"Cause:\n  rank 1 on \S+ was killed by signal 9 \(Killed\); its record ends at .* UTC, after "
        r"allreduce\.first was complete\.\n\n",
        text,
    ), text
    assert re.search(r"rank 2 on \S+ waited for allreduce\.second for ", text), text


def test_a_call_after_another_rank_has_left_is_explained(launch: Callable[..., Job]) -> None:
    script = PRELUDE + (
        "import select\n"
        "from farandole.common import job\n"
        "hvd.allreduce(numpy.ones(4), name='first')\n"
        "if hvd.rank() != 1:\n"
        "    while job.runtime.alive:\n"
        "        select.select([], [], [], 0.02)  # polls without occupying a core\n"
        "    hvd.allreduce(numpy.ones(4), name='forgotten')\n"
    )
    folder = folder_of(launch(3, script, survivors_report=True))
    text = explain(str(folder))
    assert "Cause:\n  ranks 0 and 2 called allreduce.forgotten after rank 1 had left the job.\n\n" in text, text
    assert re.search(r"^The ranks ended with: rank 1 on \S+ ended its script after 1 operation ", text, re.M), text


@pytest.mark.slow
def test_a_rank_that_is_stuck_in_user_code_is_explained(launch: Callable[..., Job]) -> None:
    # The rank holds the GIL in a C function, so no thread of Python can run.
    script = PRELUDE + (
        "import ctypes\n"
        "hvd.allreduce(numpy.ones(4), name='loaded')\n"
        "if hvd.rank() == 2:\n"
        "    ctypes.PyDLL(None).pause()\n"
        "hvd.allreduce(numpy.ones(4), name='gradient')\n"
    )
    explained(
        launch,
        3,
        script,
        r"ranks 0 and 1 waited for rank 2, which had not called allreduce\.gradient: it was in user code for "
        r"\d+\.\d s, since allreduce\.loaded was complete; its launcher ended it\.",
    )


def test_jobs_that_end_well_or_record_nothing_leave_no_folder(
    launch: Callable[..., Job], dumps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert launch(2, PRELUDE).end() == 0
    unused = launch(2, "raise SystemExit(3)")
    assert unused.end() == 3
    monkeypatch.setenv("FARANDOLE_RECORDER_EVENTS", "0")
    disabled = launch(1, PRELUDE + "sys.exit(4)")
    assert disabled.end() == 4
    assert "explain" not in unused.text + disabled.text
    assert not dumps.exists()
    monkeypatch.setenv("FARANDOLE_RECORDER_EVENTS", "100")
    (folder_of(launch(1, PRELUDE + "sys.exit(5)")) / "rank-0.events").stat()


def test_the_loss_of_a_member_of_an_elastic_job_is_explained_while_the_job_goes_on(
    elastic: Callable[..., Job], dumps: Path
) -> None:
    job = elastic(TRAINING, ["-np", "3", "--min-np", "2", "-H", "localhost:3", "--reset-limit", "1"], "2", "1")
    assert job.end() == 0, job.text
    assert len(beginnings(job.text)) == 5, job.text
    folders: List[str] = re.findall(r"when worker 1 was lost: farandole explain (\S+)\n", job.text)
    assert [str(folder) for folder in dumps.iterdir()] == folders, job.text
    text = explain(folders[0])
    assert "A job of 3 ranks, generation 1" in text
    assert re.search(r"rank 1 on \S+ was killed by signal 9 \(Killed\); its record ends at", text), text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_command_that_a_signal_ends_leaves_no_copies_of_records(
    launch: Callable[..., Job], tmp_path: Path, number: signal.Signals
) -> None:
    job = launch(1, PRELUDE + "signal.pause()\n")
    job.pids(1)
    stop(job.process.pid)  # the launcher does not answer, so the command waits
    command = subprocess.Popen([FARANDOLE, "explain"], env=clean_environment(), start_new_session=True)

    def has_folder() -> bool:
        return any((tmp_path / "run").glob("farandole-records-*"))

    try:
        wait_until(has_folder, "the command has a folder for the records")
    finally:
        command.send_signal(number)
        command.wait(DEADLINE_S)
    wait_until(lambda: not has_folder(), "the folder is removed")


def test_wrong_paths_and_words_are_refused(tmp_path: Path) -> None:
    assert explain(str(tmp_path / "none"), code=2).endswith("/none cannot be read: No such file or directory\n")
    assert "has no event records (files *.events and *.trace)" in explain(str(tmp_path), code=2)
    assert "no job of yours runs here" in explain(code=2)
    assert "there is no job unknown-1" in explain("unknown-1", code=2)
    assert explain("--events").startswith("# Events\n")
    os.mkfifo(tmp_path / "pipe.events")
    assert "is no plain file" in explain(str(tmp_path), code=2)


@pytest.mark.usefixtures("py_spy")
def test_a_running_job_is_explained_although_its_ranks_are_stopped_or_stuck(
    launch: Callable[..., Job], dumps: Path, tmp_path: Path
) -> None:
    # Rank 1 stops itself. Rank 2 holds the GIL in a C function. No rank can answer, and none needs to.
    script = PRELUDE + (
        "import ctypes\n"
        "hvd.allreduce(numpy.ones(4), name='loaded')\n"
        "print('LOADED', flush=True)\n"
        "if hvd.rank() == 1:\n"
        "    os.kill(os.getpid(), signal.SIGSTOP)\n"
        "if hvd.rank() == 2:\n"
        "    ctypes.PyDLL(None).pause()\n"
        "hvd.allreduce(numpy.ones(4), name='gradient')\n"
    )
    job = launch(3, script)
    job.read_until(lambda text: text.count("LOADED") >= 3)

    # The ranks reach these states without an event that the test could wait for.
    states = (
        r"rank 0 on \S+ has waited for allreduce\.gradient for ",
        r"rank 1 on \S+ has been in user code for \S+ m?s, since allreduce\.loaded was complete; its process is "
        r"stopped \(by SIGSTOP or Ctrl-Z\)\n",
        r"rank 2 on \S+ has been in user code for \S+ m?s, since allreduce\.loaded was complete\n",
    )
    wait_until(lambda: all(re.search(state, explain()) for state in states), "the ranks are stopped and stuck")
    text = explain()
    assert "Cause:\n  rank 0 waits for rank 1, which has not called allreduce.gradient: it has been in user" in text
    assert not dumps.exists() and not list((tmp_path / "run").glob("farandole-records-*"))

    pids = {rank["rank"]: rank["process"] for rank in json.loads(explain("--json"))["ranks"]}
    assert set(pids.values()) == set(job.pids(3))
    stack = f"      Thread of dump --nonblocking --pid {pids[2]}\n          wait (script.py:9)\n"
    assert f"allreduce.loaded was complete\n{stack}" in explain()

    name = re.search(r"script-\d+", farandole("explain", "nothing-1", code=2))
    assert name
    folder = tmp_path / "dump"
    assert farandole("dump", name.group(), "--output", str(folder)) == f"{folder}\n"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert sorted(file.name for file in folder.iterdir()) == [f"rank-{rank}.events" for rank in range(3)]
    assert "rank 1, which has not called allreduce.gradient" in explain(str(folder))
    assert "cannot be made: File exists" in farandole("dump", "--output", str(folder), code=1)
    trace = tmp_path / "trace.json"
    assert f"{trace}: " in farandole("trace", "merge", "--output", str(trace), str(folder))
    slices = [each for each in json.loads(trace.read_text())["traceEvents"] if each["ph"] == "X"]
    waiting = [each for each in slices if each["name"] == "wait for allreduce.gradient (not complete)"]
    assert [each["pid"] for each in waiting] == [0]
    assert farandole("trace", "merge", "--output", str(tmp_path), str(folder), code=1)
    told = json.loads(farandole("dump", "--json"))
    assert Path(told["folder"]).parent == dumps and told["files"] == 3 and told["missing"] == []
    job.kill()
