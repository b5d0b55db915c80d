"""mypy, pyright and Jedi read the interface as it is installed in .venv.

pyright and Jedi are in .setup/venvs/editors, which ``tools/setup --editors`` makes from PyPI alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Sequence

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EDITORS = ROOT / ".setup" / "venvs" / "editors" / "bin"
SCRIPTS = ("user_script.py", "other_frameworks.py")


def run(command: Sequence[object]) -> str:
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # The package of pyright uses Node.js from the wheel beside it and downloads nothing.
    variables["PYRIGHT_PYTHON_GLOBAL_NODE"] = "off"
    words = [str(word) for word in command]
    ran = subprocess.run(words, check=False, cwd=HERE, env=variables, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_mypy_accepts_the_user_scripts_in_strict_mode() -> None:
    cache = ROOT / ".setup" / "mypy-editors"
    # mypy runs without the configuration of this tree, as in a user's folder.
    run([sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", cache, *SCRIPTS])


def test_pyright_accepts_the_user_scripts() -> None:
    output = run([EDITORS / "pyright", "--warnings", "--pythonpath", sys.executable, *SCRIPTS])
    assert "0 errors, 0 warnings" in output


def test_jedi_completes_names_and_parameters() -> None:
    answers = json.loads(run([EDITORS / "python", HERE / "complete.py", sys.executable]))
    assert {"allreduce", "DistributedOptimizer", "elastic", "rank", "ProcessSet", "Average"} <= set(answers["package"])
    assert {"TorchState", "ElasticSampler", "run"} <= set(answers["elastic"])
    assert {"synchronize", "skip_synchronize", "set_backward_passes_per_step", "step"} <= set(answers["optimizer"])
    assert {"commit", "sync", "register_reset_callbacks"} <= set(answers["state"])
    assert answers["import"] == ["DistributedOptimizer"]
    assert answers["allreduce"][:3] == ["tensor", "average", "name"]
