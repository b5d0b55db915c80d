"""What the machine has for the tests: its GPUs, its driver, and the packages of the Python that runs the tests."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Mapping, Tuple

from gpu_tests.layout import Layout

PROBE = Path(__file__).with_name("probe.py")
PROBE_SECONDS = 90
NO_STAND_IN = "none"


class CannotRun(Exception):
    """No test can run here; the text says why."""


@dataclass(frozen=True)
class Machine:
    stand_in: str
    """The library in the place of NVIDIA's driver; empty if it is NVIDIA's own."""
    facts: Tuple[Tuple[str, str], ...]
    """Names and values, for people."""
    problems: Mapping[str, str]
    """For each package that cannot be used, and for `gpu` and `cuda`, the reason."""

    def problem_with(self, subject: str) -> str:
        return self.problems.get(subject, "")


def environment_of(layout: Layout, python: str, stand_in: str) -> Dict[str, str]:
    """The environment of everything that runs: without variables that would change how jobs and pytest behave."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOROVOD_", "PYTEST_"))}
    if stand_in:
        # The command farandole finds the stand-in by its file name, libcuda.so.1.
        kept["LD_LIBRARY_PATH"] = os.pathsep.join(
            filter(None, [str(Path(stand_in).parent), kept.get("LD_LIBRARY_PATH")])
        )
    return {
        **kept,
        "STAND_IN_DRIVER": stand_in or NO_STAND_IN,
        "FARANDOLE_LAUNCHER": str(layout.launcher),
        "PYTHONPATH": layout.python_path(),
        "PATH": os.pathsep.join([str(Path(python).parent), kept.get("PATH", os.defpath)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",  # ranks share the cores
    }


def examine(layout: Layout, python: str, environment: Mapping[str, str], stand_in: str) -> Machine:
    """Raises CannotRun if there is no GPU, or if the Python cannot run tests."""
    found = probe(python, environment)
    problems = found["problems"]
    for needed in ("farandole", "gpu", "numpy", "pytest"):
        if needed in problems:
            raise CannotRun(problems[needed] + hint(needed, python, layout))
    versions = found["versions"]
    facts = [*gpu_facts(layout, environment), ("Python", found["python"]), ("NumPy", versions["numpy"])]
    facts.append(("PyTorch", versions.get("torch") or problems["torch"]))
    if not stand_in:
        facts.insert(0, ("NVIDIA's driver", found["driver"] or "its version is not known"))
    return Machine(stand_in, tuple(facts), problems)


def hint(subject: str, python: str, layout: Layout) -> str:
    if subject == "gpu":
        return ""
    if subject == "pytest" and not layout.is_bundle:
        return (
            f"; name a Python that has pytest (--python), or a folder made by tools/bundle (--bundle): this is {python}"
        )
    return f"; name another Python: this is {python} (--python)"


def probe(python: str, environment: Mapping[str, str]) -> Dict:
    try:
        ran = subprocess.run(
            [python, str(PROBE)],
            env=dict(environment),
            check=False,
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise CannotRun(f"{python} cannot be used: {problem}") from None
    lines = ran.stdout.strip().splitlines()
    if ran.returncode != 0 or not lines:
        raise CannotRun(f"{python} ended with status {ran.returncode} while it looked at the machine:\n{ran.stderr}")
    found: Dict = json.loads(lines[-1])
    return found


def gpu_facts(layout: Layout, environment: Mapping[str, str]) -> List[Tuple[str, str]]:
    """The lines on GPUs that `farandole check` prints."""
    ran = subprocess.run(
        [str(layout.program), "check"],
        env=dict(environment),
        check=False,
        capture_output=True,
        text=True,
        timeout=PROBE_SECONDS,
    )
    return section(ran.stdout) or [("farandole check", f"no lines on GPUs: {ran.stderr.strip()}")]


def section(output: str) -> List[Tuple[str, str]]:
    """The facts in the section on GPUs of `farandole check`."""
    found = re.search(r"^Farandole GPUs:\n((?:    .*\n)*)", output, re.MULTILINE)
    lines = [line.strip() for line in found.group(1).splitlines()] if found else []
    return [(name_of(line), line) for line in lines]


def name_of(line: str) -> str:
    for begin, name in (
        ("driver for CUDA", "CUDA"),
        ("NCCL", "NCCL"),
        ("tensors in GPU memory", "path of GPU tensors"),
    ):
        if line.startswith(begin):
            return name
    return "GPU"
