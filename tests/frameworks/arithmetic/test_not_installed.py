"""A framework that is missing or too old: importing its package says what to install."""

from __future__ import annotations

import subprocess
import sys
from typing import List, Optional

import pytest

NEEDS = {"horovod.tensorflow.keras": "tensorflow", "horovod.keras": "keras"}
DOORS = ["torch", "numpy", "jax", "mxnet", "tensorflow", "tensorflow.keras", "keras", "lightning"]
OLD = {"tensorflow": "2.12.1", "mxnet": "1.5.0", "torch": "1.4.0", "jax": "0.3.0", "keras": "2.3.0"}


def imported(package: str, *before: str) -> List[str]:
    """The exception of importing a package, class and text, in a process of its own."""
    code = "\n".join(
        [
            "import sys, types",
            *before,
            "try:",
            f"    import {package}",
            "except ImportError as problem:",
            "    print(type(problem).__mro__, problem, sep='\\n')",
            "else:",
            "    print('no error')",
        ]
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("root", ["horovod", "farandole"])
def test_what_is_missing_is_named_and_how_to_get_it(root: str, door: str) -> None:
    framework = NEEDS.get(f"horovod.{door}", door)
    roots = [framework, "pytorch_lightning"] if framework == "lightning" else [framework]
    said = imported(f"{root}.{door}", *(f"sys.modules[{each!r}] = None" for each in roots))
    assert "ImportError" in said[0], said
    assert "pip install" in said[1] and framework in said[1] and "needs" in said[1], said


@pytest.mark.parametrize(("missing", "installed"), [("tensorflow", "torch"), ("jax", "torch"), ("torch", None)])
def test_keras_without_its_backend_mentions_the_setting(missing: str, installed: Optional[str]) -> None:
    setting = [f"import os; os.environ['KERAS_BACKEND'] = {missing!r}"]
    gone = [f"sys.modules[{each!r}] = None" for each in ("tensorflow", "jax", "torch") if each != installed]
    said = imported("horovod.keras", *setting, *gone)
    assert "ImportError" in said[0], said
    assert f"needs {missing}" in said[1] and f"pip install {missing}" in said[1], said
    assert (f"set KERAS_BACKEND={installed}," if installed else "choose another by KERAS_BACKEND") in said[1], said


@pytest.mark.parametrize("framework", list(OLD))
def test_what_is_too_old_is_told_with_both_versions(framework: str) -> None:
    fake = [f"fake = types.ModuleType({framework!r})", f"fake.__version__ = {OLD[framework]!r}"]
    said = imported(f"horovod.{framework}", *fake, f"sys.modules[{framework!r}] = fake")
    assert "ImportError" in said[0], said
    assert OLD[framework] in said[1] and "or later" in said[1] and "pip install" in said[1], said
