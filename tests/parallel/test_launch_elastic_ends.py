"""Members that are lost while others connect, and members that wait for a generation that cannot start."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Callable, Iterator, List

import pytest
from elastic_jobs import beginnings, of_size
from launched import DEADLINE_S, Job, assert_gone, clean_environment, needs_launcher

pytestmark = needs_launcher

ROOT = Path(__file__).resolve().parents[2]

# Trains until a generation of the wanted size has made twenty steps; slot `longer` makes one more, without
# the others. Slot `dies` is killed at its tenth step, and slot `early` fails before it calls init().
SCRIPT = """
import os, signal, sys
import numpy, farandole.numpy as hvd

wanted, longer, dies, early = [int(number) for number in sys.argv[1:]]
slot = int(os.environ["HOROVOD_RANK"])
if slot == early:
    sys.exit(3)
hvd.init()
state = hvd.elastic.NumPyState(weight=numpy.zeros(2), step=0)

@hvd.elastic.run
def train(state):
    began = state.step
    print(f"BEGIN slot {slot} rank {hvd.rank()} of {hvd.size()} step {began} pid {os.getpid()}", flush=True)
    while hvd.size() != wanted or state.step < began + 20:
        if slot == dies and state.step == 10:
            os.kill(os.getpid(), signal.SIGKILL)
        count = hvd.allreduce(numpy.ones(1), op=hvd.Sum, name="count")
        assert count == hvd.size()
        state.step += 1
        state.commit()
    if slot == longer:
        hvd.allreduce(numpy.ones(1), name="one more")
    print(f"DONE slot {slot} step {state.step}", flush=True)

train(state)
"""

# Added to the example of a path plugin: the victim kills itself when it connects for the n-th time.
DIES = """
#include <signal.h>
static farandole_path_status dies(void* path, const void* const* addresses, const size_t* sizes,
                                  const farandole_path_limits* deadline, farandole_path_why* reason) {
  static int meetings = 0;
  const char* own = getenv("HOROVOD_RANK");
  const char* victim = getenv("DIES_AT_MEETING"); /* "2:1": slot 2, the first time */
  ++meetings;
  if (own && victim && atoi(own) == atoi(victim) && atoi(strchr(victim, ':') + 1) == meetings)
    raise(SIGKILL);
  return meet(path, addresses, sizes, deadline, reason);
}

"""


@pytest.fixture(scope="module")
def deadly_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("path")
    source = (ROOT / "docs" / "examples" / "path_plugin" / "star.c").read_text()
    table = source.rindex("__attribute__((visibility")
    own = source[table:].replace("meet,", "dies,")
    assert own != source[table:]
    (folder / "star.c").write_text(source[:table] + DIES + own)
    command = ["cc", "-std=c11", "-shared", "-fPIC", "-I", str(ROOT / "bindings" / "include")]
    subprocess.run([*command, "-o", "libdies.so", "star.c"], cwd=folder, check=True, timeout=DEADLINE_S)
    return folder / "libdies.so"


@pytest.fixture
def job_of(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    jobs: List[Job] = []

    def start(flags: str, wanted: int, longer: int = -1, dies: int = -1, early: int = -1, **environment: object) -> Job:
        path = tmp_path / "script.py"
        path.write_text(textwrap.dedent(SCRIPT))
        settings = {key: str(value) for key, value in environment.items()}
        numbers = [str(number) for number in (wanted, longer, dies, early)]
        words = [*flags.split(), sys.executable, str(path), *numbers]
        jobs.append(Job(words, {**clean_environment(), **settings}, survivors_report=True))
        return jobs[-1]

    yield start
    for job in jobs:
        job.kill()


def path_settings(library: Path, victim: str) -> dict[str, object]:
    return {"FARANDOLE_CPU_PATH": "plugin", "FARANDOLE_PATH_LIBRARY": library, "DIES_AT_MEETING": victim}


def blamed(text: str) -> List[str]:
    """The slots whose exit the launcher reported as a failure."""
    return re.findall(r"Process localhost\[(\d)\] exit with status code", text)


def test_a_member_lost_during_the_first_connect_ends_no_other_process(
    job_of: Callable[..., Job], deadly_path: Path
) -> None:
    job = job_of("-np 3 --min-np 2 -H localhost:3", 2, **path_settings(deadly_path, "2:1"))
    assert job.end() == 0, job.text
    assert of_size(job.text, 2) == [(0, 0), (1, 1)]
    assert of_size(job.text, 3) == []
    assert blamed(job.text) == ["2"]
    assert "this process tries again: rank 2" in job.text
    assert_gone([beginning.pid for beginning in beginnings(job.text)])


def test_a_second_member_lost_during_the_reconnect_ends_no_other_process(
    job_of: Callable[..., Job], deadly_path: Path
) -> None:
    job = job_of("-np 4 --min-np 2 -H localhost:4", 2, dies=3, **path_settings(deadly_path, "2:2"))
    assert job.end() == 0, job.text
    assert of_size(job.text, 2) == [(0, 0), (1, 1)]
    assert of_size(job.text, 3) == []
    assert {beginning.step for beginning in beginnings(job.text) if beginning.size == 2} == {10}
    assert sorted(blamed(job.text)) == ["2", "3"]


def test_a_job_with_fixed_members_ends_when_one_is_lost_during_the_connect(
    job_of: Callable[..., Job], deadly_path: Path
) -> None:
    job = job_of("-np 3 -H localhost:3", 3, **path_settings(deadly_path, "2:1"))
    assert job.end() != 0, job.text
    assert re.search(r"rank 2 on \S+ was killed by signal 9.* before all members were connected", job.text), job.text
    assert "tries again" not in job.text


def test_the_others_start_without_a_worker_that_fails_before_init(job_of: Callable[..., Job]) -> None:
    job = job_of("-np 3 --min-np 2 -H localhost:3", 2, early=1)
    assert job.end() == 0, job.text
    assert of_size(job.text, 2) == [(0, 0), (2, 1)]
    assert blamed(job.text) == ["1"]


def test_a_member_that_is_left_alone_at_the_end_fails_below_min_np(
    job_of: Callable[..., Job],
) -> None:
    job = job_of("-np 3 --min-np 2 -H localhost:3", 3, longer=2)
    assert job.end() == 1, job.text
    assert sorted(re.findall(r"DONE slot (\d)", job.text)) == ["0", "1"]
    assert "there will be no other generation: other members have finished training" in job.text
    assert "of the 2 members that a generation needs (--min-np) 1 is left" in job.text
    assert blamed(job.text) == ["2"]


def test_a_member_that_is_left_alone_at_the_end_continues_if_min_np_is_1(
    job_of: Callable[..., Job],
) -> None:
    job = job_of("-np 3 --min-np 1 -H localhost:3", 3, longer=2)
    job.read_until(lambda text: bool(of_size(text, 1)))
    assert of_size(job.text, 1) == [(2, 0)]
