"""The steps of `tools/test gpu`: which tests run, with which options, and what they need."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Sequence, Tuple

from gpu_tests.machine import Machine

ALL_SECONDS = 460
"""Bound for all steps together."""


@dataclass(frozen=True)
class Step:
    name: str
    tests: Tuple[str, ...]
    """Files and folders in the folder of the tests."""
    seconds: int
    """Bound for one run."""
    needs: str = "numpy"
    """A package, or `cuda` for a PyTorch that sees a GPU."""
    launches: bool = False
    """Whether the tests start jobs themselves, so that pytest runs once and not as the ranks of a job."""
    options: Tuple[str, ...] = ()
    wrapper: str = ""
    """A file in the folder of the tests that each rank runs, with pytest's command line as its arguments."""
    settings: Dict[str, str] = field(default_factory=dict)

    def obstacle(self, machine: Machine) -> str:
        """Why the step cannot run on this machine; empty if it can."""
        if self.needs == "cuda":
            return machine.problem_with("torch") or machine.problem_with("cuda")
        return machine.problem_with(self.needs)


ON_DEVICES = ("operations", "alltoall", "reducescatter", "join", "adasum", "optimizer", "numpy")
"""Tests of arrays in host memory, which the plugin `on_devices` moves to the GPU; tools/test has the same list."""

STEPS = (
    Step("gpu", ("gpu",), 150),
    Step("jobs", ("gpu/test_launch_gpu_jobs.py",), 90, launches=True),
    Step("devices", ("parallel/test_devices.py",), 90, needs="torch"),
    Step(
        "operations",
        tuple(f"parallel/test_{name}.py" for name in ON_DEVICES),
        150,
        needs="torch",
        options=("-p", "on_devices"),
    ),
    Step("nccl", ("parallel/test_nccl.py",), 90, needs="torch"),
    Step("nccl shared", ("parallel/test_nccl.py",), 90, needs="torch", wrapper="parallel/on_own_hosts"),
    Step("tensors", ("parallel/test_cuda_tensors.py",), 90, needs="torch"),
    Step(
        "frameworks",
        ("frameworks/suite",),
        120,
        needs="cuda",
        settings={"FARANDOLE_TEST_FRAMEWORK": "torch", "FARANDOLE_TEST_DEVICE": "cuda"},
    ),
)


@dataclass(frozen=True)
class Run:
    """A step on a number of ranks; on 1 if its tests start jobs."""

    step: Step
    ranks: int

    def __str__(self) -> str:
        return self.step.name if self.step.launches else f"{self.step.name} on {self.ranks} ranks"


def runs_of(steps: Sequence[Step], ranks: Sequence[int]) -> List[Run]:
    return [Run(step, count) for step in steps for count in ([1] if step.launches else ranks)]
