"""A separate rendezvous process that is killed while members train, and is started again."""

from __future__ import annotations

import os
import re
import secrets
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional

import pytest
from elastic_jobs import Hosts, beginnings
from launched import DEADLINE_S, FARANDOLE, Job, clean_environment, needs_launcher, stop, wait_until, write_script

pytestmark = needs_launcher

# The script trains until the file "end" exists, writes its step count into the file "steps", and prints the beginning
# of each generation.
SCRIPT = """
import os, pathlib, sys
import numpy, farandole.numpy as hvd

folder = pathlib.Path(sys.argv[1])
slot = int(os.environ["HOROVOD_RANK"])
hvd.init()
state = hvd.elastic.NumPyState(weight=numpy.zeros(2), step=0)

@hvd.elastic.run
def train(state):
    print(f"BEGIN slot {slot} rank {hvd.rank()} of {hvd.size()} step {state.step} pid {os.getpid()}", flush=True)
    while True:
        asked = numpy.array([1, int((folder / "end").exists())])
        count, ends = hvd.allreduce(asked, op=hvd.Sum, name="count").tolist()
        assert count == hvd.size()
        state.step += 1
        state.commit()
        if hvd.rank() == 0:
            own = folder / f"steps.{os.getpid()}"  # a stopped rank 0 may continue beside the rank 0 that replaced it
            own.write_text(str(state.step))
            own.rename(folder / "steps")
        if ends:
            print(f"DONE slot {slot} of {hvd.size()}", flush=True)
            return

train(state)
"""


class Rendezvous:
    """A separate rendezvous process; it keeps its address when it is killed and started again."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.folder = folder
        self.flags = flags
        self.log = folder / "rendezvous.log"
        self.journal = folder / "journal"
        self.secret = folder / "secret"
        self.secret.write_text(secrets.token_hex(32))
        self.secret.chmod(0o600)
        self.port = 0
        self.process: Optional[subprocess.Popen[bytes]] = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [FARANDOLE, "rendezvous", *self.flags, "--port", str(self.port), "--secret-file", str(self.secret)]
                + ["--journal", str(self.journal)],
                stdout=subprocess.PIPE,
                stderr=log,
                env=clean_environment(),
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()  # returns when the process ends without listening
        assert line.startswith("127.0.0.1:"), self.log.read_text()
        self.port = int(line.split(":")[1])

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.communicate(timeout=DEADLINE_S)


class Training(Job):
    """A job that a test observes by its output and by its step count."""

    def __init__(self, rendezvous: Rendezvous, *flags: str) -> None:
        script = write_script(rendezvous.folder, SCRIPT)
        self.folder = rendezvous.folder
        environment = {**clean_environment(), "FARANDOLE_SECRET_FILE": str(rendezvous.secret)}
        address = f"127.0.0.1:{rendezvous.port}"
        super().__init__([*flags, "--rendezvous", address, sys.executable, script, str(rendezvous.folder)], environment)

    def steps(self) -> int:
        path = self.folder / "steps"
        return int(path.read_text()) if path.exists() else 0

    def wait_for_steps(self, more: int = 20) -> None:
        goal = self.steps() + more
        wait_until(lambda: self.steps() >= goal, f"{more} more steps; the job said:\n{self.text}")

    def members(self, size: int) -> Dict[int, int]:
        """Process ids by slot, once a generation of this size has begun on all members."""

        def begun(text: str) -> Dict[int, int]:
            return {member.slot: member.pid for member in beginnings(text) if member.size == size}

        return begun(self.read_until(lambda text: len(begun(text)) >= size))

    def end_training(self) -> None:
        (self.folder / "end").touch()
        assert self.end() == 0, self.text


@pytest.fixture
def start_rendezvous(tmp_path: Path) -> Iterator[Callable[..., Rendezvous]]:
    started: List[Rendezvous] = []

    def start(*flags: str) -> Rendezvous:
        started.append(Rendezvous(tmp_path, *flags))
        started[-1].start()
        return started[-1]

    yield start
    for rendezvous in started:
        if rendezvous.process is not None and rendezvous.process.poll() is None:
            rendezvous.kill()


@pytest.fixture
def launch(start_rendezvous: Callable[..., Rendezvous], jobs: List[Job]) -> Callable[..., Training]:
    def start(rendezvous: Rendezvous, *flags: str) -> Training:
        job = Training(rendezvous, *flags)
        jobs.append(job)
        return job

    return start


def rendezvous_is_back(members: int, epoch: int) -> Callable[[str], bool]:
    return lambda text: text.count(f"the rendezvous is back (epoch {epoch}.") >= members


def test_training_goes_on_without_its_rendezvous_and_membership_changes_after_its_return(
    start_rendezvous: Callable[..., Rendezvous], launch: Callable[..., Training], tmp_path: Path
) -> None:
    hosts = Hosts(tmp_path)
    hosts.print_lines("localhost:2", "127.0.0.1:1")
    sizes = ("-np", "3", "--min-np", "1", "--max-np", "3")
    rendezvous = start_rendezvous(*sizes)
    job = launch(rendezvous, *sizes, "--host-discovery-script", str(hosts.script))
    members = job.members(3)
    rendezvous.kill()
    job.read_until(lambda text: text.count("training goes on") >= 3)
    job.wait_for_steps(50)
    rendezvous.start()
    job.read_until(rendezvous_is_back(3, epoch=2))
    rendezvous.kill()
    rendezvous.start()
    job.read_until(rendezvous_is_back(3, epoch=3))
    job.wait_for_steps()
    assert job.text.count("BEGIN") == 3  # the generation is the same
    os.kill(members[2], signal.SIGKILL)
    assert job.members(2) == {0: members[0], 1: members[1]}
    job.wait_for_steps()
    hosts.print_lines("localhost:3")
    job.read_until(lambda text: re.search(r"BEGIN slot 3 rank 2 of 3", text) is not None)
    job.end_training()


def test_members_that_lose_one_during_an_outage_of_the_rendezvous_wait_for_its_return(
    start_rendezvous: Callable[..., Rendezvous], launch: Callable[..., Training]
) -> None:
    sizes = ("-np", "3", "--min-np", "1")
    rendezvous = start_rendezvous(*sizes)
    job = launch(rendezvous, *sizes, "-H", "localhost:3")
    members = job.members(3)
    job.wait_for_steps()
    rendezvous.kill()
    os.kill(members[1], signal.SIGKILL)
    job.read_until(lambda text: text.count("only the rendezvous decides which workers are in the job") >= 2)
    assert job.text.count("BEGIN") == 3  # the remaining members form no generation by themselves
    rendezvous.start()
    assert job.members(2) == {0: members[0], 2: members[2]}
    job.wait_for_steps()
    job.end_training()


def test_a_second_rendezvous_on_a_journal_in_use_is_refused(start_rendezvous: Callable[..., Rendezvous]) -> None:
    first = start_rendezvous("-np", "2", "--min-np", "1")
    second = subprocess.run(
        [FARANDOLE, "rendezvous", *first.flags, "--secret-file", str(first.secret), "--journal", str(first.journal)],
        check=False,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_S,
    )
    assert second.returncode == 2
    assert first.process is not None
    assert f"process {first.process.pid} on {socket.gethostname()} has it" in second.stdout


def test_a_journal_of_another_job_or_with_damage_is_refused(start_rendezvous: Callable[..., Rendezvous]) -> None:
    first = start_rendezvous("-np", "2", "--min-np", "1")
    wait_until(first.journal.exists, "the journal is written")
    first.kill()

    def refusal(*flags: str) -> str:
        files = ("--secret-file", str(first.secret), "--journal", str(first.journal))
        ended = subprocess.run(
            [FARANDOLE, "rendezvous", *flags, *files],
            check=False,
            env=clean_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE_S,
        )
        assert ended.returncode == 2
        return ended.stdout

    assert "is of a job of 2 (1 to 2) members" in refusal("-np", "3", "--min-np", "1")
    content = bytearray(first.journal.read_bytes())
    content[20] ^= 1
    first.journal.write_bytes(content)
    assert "damaged at byte 16" in refusal(*first.flags)


# The script joins the job, or prints the reason for which it is refused.
JOINS = """
import farandole.numpy as hvd
try:
    hvd.init()
except ValueError as refused:
    print("REFUSED", refused)
"""


def test_the_rendezvous_refuses_a_foreign_slot_and_a_wrong_secret_with_the_reason(
    start_rendezvous: Callable[..., Rendezvous], launch: Callable[..., Training], tmp_path: Path
) -> None:
    sizes = ("-np", "2", "--min-np", "1")
    rendezvous = start_rendezvous(*sizes)
    job = launch(rendezvous, *sizes, "-H", "localhost:2")
    job.members(2)
    wrong_secret = tmp_path / "other"
    wrong_secret.write_text(secrets.token_hex(32))
    wrong_secret.chmod(0o600)

    def refusal(secret: Path) -> str:
        variables = {
            "HOROVOD_ELASTIC": "1",
            "HOROVOD_RANK": "77",
            "HOROVOD_SIZE": "2",
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
            "HOROVOD_GLOO_RENDEZVOUS_PORT": str(rendezvous.port),
            "FARANDOLE_SECRET_FILE": str(secret),
        }
        return subprocess.run(
            [sys.executable, "-c", JOINS],
            check=False,
            env={**clean_environment(), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE_S,
        ).stdout

    assert re.search(r"REFUSED .*slot 77 was not started by this job's launcher", refusal(rendezvous.secret))
    assert re.search(r"REFUSED .*secret", refusal(wrong_secret))
    job.wait_for_steps()
    job.end_training()


@pytest.mark.slow
def test_a_member_of_an_earlier_generation_is_refused_and_joins_as_a_new_member(
    start_rendezvous: Callable[..., Rendezvous], launch: Callable[..., Training], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A member that is not stopped reconnects within 1 to 2 s, on a busy machine within ten seconds more.
    monkeypatch.setenv("FARANDOLE_REGROUP_TIMEOUT", "30")
    sizes = ("-np", "3", "--min-np", "1")
    rendezvous = start_rendezvous(*sizes)
    job = launch(rendezvous, *sizes, "-H", "localhost:3")
    members = job.members(3)
    job.wait_for_steps()
    # Two members do not reconnect to the rendezvous in time, and the third continues without them.
    for slot in (0, 2):
        stop(members[slot])
    rendezvous.kill()
    rendezvous.start()
    assert job.members(1) == {1: members[1]}
    os.kill(members[2], signal.SIGCONT)
    job.read_until(lambda text: re.search(r"\[2\]<stderr>:.*job has ended this generation while", text) is not None)
    assert job.members(2) == {1: members[1], 2: members[2]}
    os.kill(members[0], signal.SIGCONT)
    job.read_until(lambda text: re.search(r"BEGIN slot 0 rank 2 of 3", text) is not None)
    job.end_training()


def test_a_launcher_writes_its_own_journal_and_starts_again_with_it(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    command = ["-np", "1", "--min-np", "1", "-H", "localhost:1", "--journal", str(journal)]
    for _ in range(2):
        job = Job([*command, sys.executable, "-c", "import farandole.numpy as hvd; hvd.init(); hvd.barrier()"])
        assert job.end() == 0, job.text
        assert journal.read_bytes().startswith(b"FARANDJL")


# The worker on 127.0.0.1 fails once all workers have started, and the other one waits; both succeed once the file
# "well" exists.
FAILS_ON_ONE_HOST = """
import os, pathlib, signal, sys
import farandole.numpy as hvd

folder = pathlib.Path(sys.argv[1])
hvd.init()
host = os.environ["HOROVOD_HOSTNAME"]
print(f"IN {host} of {hvd.size()}", flush=True)
if host == "127.0.0.1" and not (folder / "well").exists():
    os._exit(3)
if not (folder / "well").exists():
    signal.pause()  # until the launcher is gone
"""


def record_types(journal: Path) -> List[int]:
    content, at, types = journal.read_bytes(), 16, []
    while at + 40 <= len(content):  # see elastic/journal_format.hpp
        kind, size = struct.unpack_from("<II", content, at + 4)
        types.append(kind)
        at += 40 + size
    return types


@pytest.mark.parametrize("separate", [False, True])
def test_a_launcher_started_after_a_killed_one_keeps_its_blacklist_of_hosts(
    separate: bool, start_rendezvous: Callable[..., Rendezvous], tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(FAILS_ON_ONE_HOST)
    command = ["--min-np", "1", "--max-np", "2", "-H", "localhost:1,127.0.0.1:1"]
    command += ["--blacklist-cooldown-range", "3000", "3600"]
    worker = [sys.executable, str(script), str(tmp_path)]
    journal = tmp_path / "journal"
    if separate:
        rendezvous = start_rendezvous("-np", "2", "--min-np", "1")
        environment = {**clean_environment(), "FARANDOLE_SECRET_FILE": str(rendezvous.secret)}
        address = ["--rendezvous", f"127.0.0.1:{rendezvous.port}"]
        killed = Job(["-np", "2", *command, *address, *worker], environment)
    else:
        killed = Job(["-np", "2", *command, "--journal", str(journal), *worker])
    killed.read_until(lambda text: "host 127.0.0.1 gets no new workers for " in text)
    wait_until(lambda: 3 in record_types(journal), "the blacklist is in the journal")
    killed.process.kill()  # the launcher alone
    killed.end()
    if separate:
        rendezvous.kill()
    (tmp_path / "well").touch()
    command += ["--journal", str(journal)]
    second = Job(["-np", "1", *command, *worker])
    assert second.end() == 0, second.text
    assert re.search(r"host 127\.0\.0\.1 gets no new workers for \d+ s: it failed before", second.text)
    assert "IN localhost of 1" in second.text
    assert "IN 127.0.0.1" not in second.text
    # The second job ended in order, so the third begins with all hosts.
    third = Job(["-np", "2", *command, *worker])
    assert third.end() == 0, third.text
    assert "gets no new workers" not in third.text
    assert "IN 127.0.0.1 of 2" in third.text


# The script claims to have obeyed another rendezvous, and prints the error.
OBEYS_ANOTHER = """
from farandole import _native
try:
    _native.Runtime.start(epoch=9 << 32)
except Exception as ended:
    print("ENDED", ended)
"""


@pytest.mark.parametrize("elastic", [True, False])
def test_a_launcher_whose_rendezvous_steps_down_ends_with_the_reason(elastic: bool, tmp_path: Path) -> None:
    flags = ["--min-np", "1", "--journal", str(tmp_path / "journal")] if elastic else []
    job = Job(["-np", "2", *flags, "-H", "localhost:2", sys.executable, "-c", OBEYS_ANOTHER])
    assert job.end() == 1, job.text
    assert re.search(
        r"this rendezvous \(epoch 1\.\w+\) ends: the job's members obey another one, of epoch 9\.", job.text
    )


# Rank 1 fails, and its process ends after those of the other ranks, which fail because of it.
FAILS = """
import atexit, os, select, sys
others = []

def wait_for_others():
    while any(os.path.exists(f"/proc/{pid}") for pid in others):
        select.select([], [], [], 0.02)

atexit.register(wait_for_others)  # runs after what farandole registers
import numpy, farandole.numpy as hvd

hvd.init()
pids = hvd.allgather(numpy.array([os.getpid()]), name="pids").tolist()
if hvd.rank() == 1:
    others += [pid for pid in pids if pid != os.getpid()]
    print("its last words", file=sys.stderr, flush=True)
    raise KeyError("on purpose")
hvd.allreduce(numpy.ones(2), name="weights")
"""


def test_the_report_names_the_failed_rank_of_a_job_with_a_separate_rendezvous(
    start_rendezvous: Callable[..., Rendezvous], jobs: List[Job]
) -> None:
    sizes = ("-np", "3", "--min-np", "3")
    rendezvous = start_rendezvous(*sizes)
    address = ["--rendezvous", f"127.0.0.1:{rendezvous.port}", "-H", "localhost:3"]
    environment = {**clean_environment(), "FARANDOLE_SECRET_FILE": str(rendezvous.secret)}
    words = [*sizes, *address, sys.executable, write_script(rendezvous.folder, FAILS)]
    jobs.append(Job(words, environment, survivors_report=True))
    assert jobs[0].end() != 0, jobs[0].text
    report = jobs[0].text.split("exited with non-zero status.")[1]
    assert "Process name: localhost[1]\n" in report, jobs[0].text
    assert "    its last words\n" in report, jobs[0].text
