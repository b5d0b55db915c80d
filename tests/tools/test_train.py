"""The command that trains refuses wrong arguments before it sets anything up."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import List

import pytest

TRAIN = Path(__file__).parents[2] / "tools" / "train"


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs the command in a tree whose set-up only says that it was called."""
    tools = folder / "tools"
    tools.mkdir()
    shutil.copy(TRAIN, tools)
    setup = tools / "setup"
    setup.write_text("#!/bin/sh\necho SET UP\nexit 3\n")
    setup.chmod(0o755)
    return subprocess.run([tools / "train", *words], check=False, capture_output=True, text=True)


@pytest.mark.parametrize(
    "words, message",
    [
        (["-np", "two"], "-np needs a number of workers (got: two)"),
        (["-np", "0"], "-np needs a number of workers (got: 0)"),
        (["-np"], "-np needs a number of workers (got: nothing)"),
        (["-n", "2"], "unknown option -n; see tools/train --help"),
        (["-np", "2", "/nonexistent/train.py"], "there is no script /nonexistent/train.py"),
    ],
)
def test_wrong_arguments_are_refused_before_the_set_up(tmp_path: Path, words: List[str], message: str) -> None:
    done = run(tmp_path, *words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"tools/train: {message}\n")


def test_right_arguments_set_up_first(tmp_path: Path) -> None:
    (tmp_path / "script.py").touch()
    done = run(tmp_path, "-np", "2", str(tmp_path / "script.py"), "--epochs", "1")
    assert (done.returncode, done.stdout) == (3, "SET UP\n"), done.stderr
