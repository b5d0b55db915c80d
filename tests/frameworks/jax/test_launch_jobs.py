"""Whole jobs: the example, a member that is lost, and the end of a process."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from launched import Job, needs_launcher, run_script

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "jax_mnist.py"

pytestmark = needs_launcher


@pytest.mark.slow
def test_the_mnist_example_reaches_85_percent_accuracy(jobs) -> None:
    jobs.append(Job(["-np", "2", sys.executable, str(EXAMPLE), "--steps", "200"]))
    assert jobs[-1].end() == 0, jobs[-1].text
    accuracy = re.search(r"accuracy (0\.\d+)", jobs[-1].text)
    assert accuracy and float(accuracy[1]) > 0.85, jobs[-1].text


@pytest.mark.parametrize("shuts_down", [False, True])
def test_a_program_that_was_called_completes_before_the_process_ends(tmp_path: Path, shuts_down: bool) -> None:
    """One rank does not read the result, and reaches its end before the other rank has begun. The script may have found
    no checkpoint."""
    ended = run_script(
        2,
        tmp_path,
        f"""
        import farandole.jax as hvd, jax, jax.numpy as jnp
        def main():
            hvd.init()
            step = jax.jit(lambda x: hvd.allreduce(jnp.sin(x) @ x / 300, name="step"))
            x = jnp.ones((300, 300))
            for _ in range(20):
                x = step(x)
            if hvd.rank() == 0:
                print("came:", bool(jnp.isfinite(x).all()), flush=True)
            if {shuts_down}:
                hvd.shutdown()
        try:
            open("no checkpoint")
        except FileNotFoundError:
            main()
        """,
    )
    assert ended.returncode == 0 and "came: True" in ended.stdout, ended.stdout


def test_a_lost_member_raises_an_exception_inside_a_program(tmp_path: Path) -> None:
    ended = run_script(
        2,
        tmp_path,
        """
        import os, signal
        import farandole.jax as hvd, jax, jax.numpy as jnp
        hvd.init()
        step = jax.jit(lambda x: hvd.allreduce(x, name="step"))
        step(jnp.ones(4)).block_until_ready()
        if hvd.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            step(jnp.ones(4)).block_until_ready()
        except (jax.errors.JaxRuntimeError, ValueError) as lost:
            print("LOST", str(lost).splitlines()[0], flush=True)
        """,
        survivors_report=True,
    )
    assert "LOST UNAVAILABLE" in ended.stdout and "step" in ended.stdout, ended.stdout


@pytest.mark.parametrize("leave", ["hvd.shutdown()", "worker.leave_job()"])
def test_a_worker_that_fails_leaves_without_waiting_for_its_own_programs(tmp_path: Path, leave: str) -> None:
    """Rank 0 never calls rank 1's program: it waits for an operation that rank 1 does not reach."""
    ended = run_script(
        2,
        tmp_path,
        f"""
        import farandole.jax as hvd, jax, jax.numpy as jnp
        from farandole.runner import worker
        hvd.init()
        hvd.allreduce(jnp.ones(4), name="first").block_until_ready()
        try:
            if hvd.rank() == 1:
                unread = jax.jit(lambda x: hvd.allreduce(jnp.sin(x) @ x, name="unmatched"))(jnp.ones((300, 300)))
                raise KeyError("no batch")
            hvd.allreduce(jnp.ones(4), name="next").block_until_ready()
        except (KeyError, ValueError, RuntimeError) as problem:
            failure = problem
            if {leave == "hvd.shutdown()"}:
                hvd.shutdown()
        if {leave == "worker.leave_job()"}:
            worker.leave_job()
        print("LEFT", hvd.is_initialized(), type(failure).__name__, flush=True)
        """,
        survivors_report=True,
    )
    assert ended.returncode == 0 and ended.stdout.count("LEFT False") == 2 and "KeyError" in ended.stdout, ended.stdout
