"""A framework that is missing or too old: importing its binding names the package to install."""

from __future__ import annotations

import subprocess
import sys
from typing import List, Optional

import pytest

NEEDS = {"horovod.tensorflow.keras": "tensorflow", "horovod.keras": "keras"}
BINDINGS = ["torch", "numpy", "jax", "mxnet", "tensorflow", "tensorflow.keras", "keras", "lightning"]
OLD = {"tensorflow": "2.12.1", "mxnet": "1.5.0", "torch": "1.4.0", "jax": "0.3.0", "keras": "2.3.0"}


def imported(package: str, *before: str) -> List[str]:
    """The class and the text of the exception that importing a package raises, in a separate process."""
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
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=240)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("root", ["horovod", "farandole"])
def test_a_binding_without_its_framework_names_it_and_how_to_install_it(root: str, binding: str) -> None:
    framework = NEEDS.get(f"horovod.{binding}", binding)
    roots = [framework, "pytorch_lightning"] if framework == "lightning" else [framework]
    output = imported(f"{root}.{binding}", *(f"sys.modules[{each!r}] = None" for each in roots))
    assert "ImportError" in output[0], output
    assert "pip install" in output[1] and framework in output[1] and "needs" in output[1], output


@pytest.mark.parametrize(("missing", "installed"), [("tensorflow", "torch"), ("jax", "torch"), ("torch", None)])
def test_keras_without_its_backend_names_the_backend_and_the_setting(missing: str, installed: Optional[str]) -> None:
    setting = [f"import os; os.environ['KERAS_BACKEND'] = {missing!r}"]
    gone = [f"sys.modules[{each!r}] = None" for each in ("tensorflow", "jax", "torch") if each != installed]
    output = imported("horovod.keras", *setting, *gone)
    assert "ImportError" in output[0], output
    assert f"needs {missing}" in output[1] and f"pip install {missing}" in output[1], output
    assert (f"set KERAS_BACKEND={installed}," if installed else "choose another by KERAS_BACKEND") in output[1], output


@pytest.mark.parametrize("framework", list(OLD))
def test_a_binding_with_an_old_framework_names_both_versions(framework: str) -> None:
    fake = [f"fake = types.ModuleType({framework!r})", f"fake.__version__ = {OLD[framework]!r}"]
    output = imported(f"horovod.{framework}", *fake, f"sys.modules[{framework!r}] = fake")
    assert "ImportError" in output[0], output
    assert OLD[framework] in output[1] and "or later" in output[1] and "pip install" in output[1], output
