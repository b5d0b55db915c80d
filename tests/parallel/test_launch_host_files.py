"""Host files as people, tools and editors write them: the launcher starts the workers, or refuses the line."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Dict

import pytest
from launched import DEADLINE_S, LAUNCHER, clean_environment, needs_launcher

pytestmark = [needs_launcher, pytest.mark.slow]

STARTED: Dict[str, bytes] = {
    "no newline at the end": b"localhost slots=2",
    "newlines of Windows": b"# hosts\r\n\r\nlocalhost slots=2\r\n",
    "tabs and blanks": b"  localhost\t\tslots = 2  \t\n",
    "twice": b"localhost slots=1\nlocalhost slots=1\n",
    "comment": b"localhost slots=2 # ours\n",
    "byte order mark": b"\xef\xbb\xbflocalhost slots=2\n",
    "Open MPI": b"localhost slots=2 max_slots=4\n",
    "MPICH": b"localhost:2\n",
}
REFUSED: Dict[str, bytes] = {
    "max_slots alone": b"localhost max_slots=2\n",
    "another keyword": b"localhost cpu=2\n",
    "a colon and slots": b"localhost:2 slots=2\n",
    "two words": b"local host slots=2\n",
    "no number": b"localhost slots=two\n",
    "negative": b"localhost slots=-1\n",
    "binary": b"\x7fELF\x01\x02\n",
    "a name with a slash": b"local/host slots=2\n",
    "an option of ssh": b"-oProxyCommand=true slots=2\n",
    "an option of ssh without a value": b"-V slots=2\n",
}


def launch_with(hosts: bytes, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "hosts").write_bytes(hosts)
    return subprocess.run(
        [LAUNCHER, "-np", "2", "--hostfile", str(folder / "hosts"), "sh", "-c", "echo started $HOROVOD_RANK"],
        check=False,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_S,
    )


@pytest.mark.parametrize("hosts", STARTED.values(), ids=STARTED)
def test_workers_start_on_the_hosts_of_a_file(hosts: bytes, tmp_path: Path) -> None:
    done = launch_with(hosts, tmp_path)
    assert done.returncode == 0 and done.stdout.count("started") == 2, done.stdout


@pytest.mark.parametrize("hosts", REFUSED.values(), ids=REFUSED)
def test_a_line_that_cannot_be_understood_is_refused_by_its_number(hosts: bytes, tmp_path: Path) -> None:
    done = launch_with(b"# hosts\n" + hosts, tmp_path)
    assert done.returncode == 2 and "hosts, line 2: " in done.stdout and "started" not in done.stdout, done.stdout


def test_a_file_without_hosts_is_refused(tmp_path: Path) -> None:
    done = launch_with(b"", tmp_path)
    assert done.returncode == 2 and str(tmp_path / "hosts") in done.stdout, done.stdout
