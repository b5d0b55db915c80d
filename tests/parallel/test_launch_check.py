"""The report of ``--check-build``, which scripts of users search for its blocks and marks."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Tuple

import pytest
from launched import DEADLINE_S, FARANDOLE, LAUNCHER, clean_environment, needs_launcher

pytestmark = needs_launcher

BLOCKS: Dict[str, List[str]] = {
    "Available Frameworks": ["TensorFlow", "PyTorch", "MXNet"],
    "Available Controllers": ["MPI", "Gloo"],
    "Available Tensor Operations": ["NCCL", "DDL", "CCL", "MPI", "Gloo"],
    "Farandole Data Paths": ["fast path", "hierarchical", "local", "tcp", "ucx", "gloo", "mpi", "ccl", "nccl"],
    "Farandole Profiling": ["NVTX ranges"],
}
FRAMEWORKS = {"TensorFlow": "farandole.tensorflow", "PyTorch": "farandole.torch", "MXNet": "farandole.mxnet"}


def report(*command: str) -> str:
    """The standard output of a command, which exits with 0 and prints no error."""
    ran = subprocess.run(
        command, check=False, env=clean_environment(), capture_output=True, text=True, timeout=2 * DEADLINE_S
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def blocks_of(text: str) -> List[Tuple[str, List[str]]]:
    """The titles of the first blocks with their lines."""
    head, *paragraphs = text.split("\n\n")
    assert head == "Horovod v0.28.1:"
    blocks = [paragraph.splitlines() for paragraph in paragraphs[: len(BLOCKS)]]
    return [(lines[0], lines[1:]) for lines in blocks]


@pytest.mark.parametrize(
    "words",
    [
        (LAUNCHER, "--check-build"),
        pytest.param((LAUNCHER, "-np", "2", "-cb", "false"), marks=pytest.mark.slow),
        pytest.param((FARANDOLE, "check"), marks=pytest.mark.slow),
    ],
    ids=["--check-build", "-cb with a job", "farandole check"],
)
def test_the_report_has_every_block_and_entry_in_order(words: Tuple[str, ...]) -> None:
    blocks = blocks_of(report(*words))
    assert [title for title, _ in blocks] == [f"{title}:" for title in BLOCKS]
    for (title, lines), entries in zip(blocks, BLOCKS.values()):
        assert [re.sub(r"^    \[[X ]\] ", "", line) for line in lines] == entries, title


@pytest.mark.slow
def test_a_framework_is_marked_if_its_binding_can_be_imported() -> None:
    marks = dict(blocks_of(report(LAUNCHER, "--check-build")))["Available Frameworks:"]
    python = Path(LAUNCHER).with_name("python3")
    for line in marks:
        module = FRAMEWORKS[line[8:]]
        imported = subprocess.run(
            [str(python) if python.exists() else sys.executable, "-c", f"import {module}"],
            check=False,
            env=clean_environment(),
            capture_output=True,
            timeout=DEADLINE_S,
        )
        assert line.startswith("    [X]") == (imported.returncode == 0), line


@pytest.mark.slow
def test_the_report_names_the_gpus_or_the_reason_why_there_are_none() -> None:
    report_text = report(FARANDOLE, "check")
    lines = report_text.split("\nFarandole GPUs:\n")[1].split("\n\n")[0].splitlines()
    if lines[0].startswith("    none: "):
        assert len(lines) == 1, lines
    else:
        assert [line.split()[0] for line in lines[-3:-1]] == ["driver", "NCCL"], lines
        assert all(", compute capability " in line for line in lines[:-3]), lines
