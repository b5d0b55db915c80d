"""Attacks by other users of a job's host, which share its folders for temporary files but not its secret."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Callable, Dict

import pytest
from namespaces import FARANDOLE, Hosts
from results import Results
from training import SAME, Training

NOBODY = 65534
DEADLINE_S = 240.0


def drain(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    kept: Dict[str, str] = {key: value for key, value in os.environ.items() if key != "XDG_RUNTIME_DIR"}
    return subprocess.run(
        [FARANDOLE, "drain", *words],
        check=False,
        env={**kept, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_S,
    )


@pytest.mark.parametrize("planted", ["a folder of another user", "a link to a folder of the user's own"])
def test_drain_neither_reads_nor_deletes_a_planted_folder_of_job_records(
    planted: str, train: Callable[..., Training], undisturbed: str, results: Results, tmp_path: Path
) -> None:
    job = train()
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    folder = tmp_path / "precious" if planted.startswith("a link") else shared / f"farandole-{os.getuid()}"
    folder.mkdir()
    record = folder / "victim.job"
    record.write_text("name victim\nlauncher 1\n")
    if planted.startswith("a link"):
        (shared / f"farandole-{os.getuid()}").symlink_to(folder)
    else:
        os.chown(folder, NOBODY, NOBODY)
    ended = drain(shared)
    assert ended.returncode != 0
    assert record.exists(), ended.stdout
    assert "victim" not in ended.stdout
    assert job.finish() == undisturbed
    results.add(f"farandole drain, with {planted} in the place of its records", 1, f"not read, nothing deleted; {SAME}")


CONTROL = """
import numpy, farandole.numpy as hvd
hvd.init()
name = "gradient\\x1b[2J\\x1b]0;owned\\x07\\r\\n[1]<stderr>: all is well"
try:
    hvd.allreduce(numpy.ones(3 + hvd.rank()), name=name)
except Exception as problem:
    print("REFUSED", problem, flush=True)
"""


def test_control_characters_of_a_tensor_name_do_not_reach_the_terminal(hosts: Hosts, results: Results) -> None:
    workers = hosts.job(CONTROL, header="")
    for worker in workers:
        assert worker.end() == 0, worker.text
        assert re.search(r"^REFUSED .*gradient\\x1b\[2J", worker.text, re.MULTILINE), worker.text
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", worker.text), repr(worker.text)
        assert "\n[1]<stderr>: all is well" not in worker.text
    results.add("control characters in the name of a tensor", 1, "written out as \\x1b in errors and logs")


def test_control_characters_of_a_host_name_do_not_reach_the_terminal(results: Results) -> None:
    for host in ("a\x1b[2J", "a\x1b[2J:1", "localhost:1,\nb\x1b:2"):
        ended = subprocess.run(
            [FARANDOLE, "run", "-np", "1", "-H", host, sys.executable, "-c", ""],
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE_S,
        )
        assert ended.returncode != 0
        assert "\\x1b" in ended.stdout
        assert "\x1b" not in ended.stdout, repr(ended.stdout)
    results.add("control characters in the name of a host", 3, "refused, and written out as \\x1b")
