"""Another machine for bundles, made of namespaces.

It has no network but loopback, another home folder and no .venv; this tree is hidden below an empty file system. It has
NumPy and PyTorch, as a compute node has.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Tuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
SITE = Path(pytest.__file__).resolve().parents[1]
NAMESPACES = ("--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
DEADLINE_S = 900.0
"""To compile the native module, whose files may not be in ccache."""
ENTER = """\
set -e
mount --bind "$SITE" "$WORK/packages"
for name in farandole horovod; do mount -t tmpfs none "$WORK/packages/$name"; done
mount -t tmpfs none "$ROOT"
ip link set lo up
cd "$WORK"
exec env -i HOME="$WORK" PATH=/usr/bin:/bin PYTHONPATH="$WORK/packages" PYTHONDONTWRITEBYTECODE=1 bash -c "$1"
"""
"""Hides the tree, except for its packages from PyPI, and runs a command as another machine would."""


class Machine:
    """Another machine, with the bundle that was copied to it."""

    def __init__(self, folder: Path, bundle: Path) -> None:
        self.folder = folder
        self.bundle = bundle
        (folder / "packages").mkdir(parents=True)

    def run(self, command: str, status: int = 0) -> str:
        """The output of a command of bash."""
        variables = {**os.environ, "SITE": str(SITE), "WORK": str(self.folder), "ROOT": str(ROOT)}
        ran = subprocess.run(
            ["unshare", *NAMESPACES, "bash", "-c", ENTER, "enter", command],
            env=variables,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE_S,
        )
        assert ran.returncode == status, f"{command} ended with {ran.returncode}:\n{ran.stdout}"
        return ran.stdout

    def trains(self, bundle: Path) -> None:
        """Trains with NumPy on two ranks."""
        script = bundle / "tests" / "install" / "train.py"
        output = self.run(f'source "{bundle}/activate"; horovodrun -np 2 {PYTHON} "{script}"')
        assert output.count("has trained") == 2, output


def bundled(*words: object) -> Tuple[int, str]:
    """Runs tools/bundle. Its exit status, and what it prints."""
    command = [str(word) for word in (ROOT / "tools" / "bundle", *words)]
    ran = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return ran.returncode, ran.stdout
