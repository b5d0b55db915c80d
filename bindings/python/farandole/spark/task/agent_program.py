"""The program of a Spark task that is a place for one worker: runs ``farandole agent`` until the job ends.

Spark gets this module with the task itself, not by its name, so that an executor without Farandole can say so.
"""

from __future__ import annotations

import collections
import json
import os
import socket
import subprocess
import sys
import time
from typing import Any, Dict, Iterable, Iterator, List, Tuple

OF_WORKERS = {"HOME": "FARANDOLE_TASK_HOME", "HOROVOD_HOSTNAME": "FARANDOLE_TASK_HOST"}
"""Variables of a worker that those in the environment of its agent replace."""
LONGEST_PAUSE_S = 60
"""The longest pause before a worker is started in a task that has failed repeatedly. The pause is 1 s after the second
failure, and doubles with each further one."""
WORKER_FAILED = "the worker of this task has failed"
"""Part of the error of a task that has failed because its worker has. The driver recognizes the failure by it."""
PYTHON_VARIABLE = "FARANDOLE_TASK_PYTHON"
"""In the environment of an agent: the interpreter of its task."""


def serve(index: int, plan: Dict[str, Any]) -> Iterator[str]:
    """Runs the agent of the task with this index. Yields the name of the host; ``RuntimeError`` if the agent fails.

    :param plan: launcher (addresses), secret, version, dial_timeout_s, executable, resources_variable, is_elastic,
        failures (how many workers of an elastic job may fail one after the other in this attempt of the task)
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    host = socket.gethostname()
    place = f"Spark task {index} on host {host}"
    attempt = context.attemptNumber()
    if attempt > 0 and not plan["is_elastic"]:
        raise RuntimeError(
            f"{place} was started again (attempt {attempt}), but a job of fixed size cannot go on without a worker: "
            "see the reason of the first attempt, or use horovod.spark.run_elastic()"
        )
    _require_version(place, plan["version"])
    from farandole.runner.common.util.host_hash import host_hash
    from farandole.runner.placing import WORKER_FAILED_CODE, agent_command
    from farandole.runner.worker import PLACE_VARIABLE

    resources = {kind: list(each.addresses) for kind, each in (context.resources() or {}).items()}
    environment = {
        **os.environ,
        PYTHON_VARIABLE: plan["executable"] or sys.executable,
        OF_WORKERS["HOME"]: os.environ.get("HOME", ""),
        OF_WORKERS["HOROVOD_HOSTNAME"]: host_hash(),
        PLACE_VARIABLE: f"host {host} (Spark task {index})",
        plan["resources_variable"]: json.dumps(resources),
    }
    for failure in range(plan["failures"]):
        # Each worker gets a place with a new name, because the launcher waits before it uses a place again in which a
        # worker has failed. Names contain no dots, because mpirun cuts names of hosts at the first one.
        number = attempt + failure
        name = f"{host.replace('.', '-')}-task-{index}" + (f".{number}" if number > 0 else "")
        if number > 1:  # the worker has failed again
            time.sleep(min(2 ** (number - 2), LONGEST_PAUSE_S))
        words = agent_command(plan["launcher"], name, plan["dial_timeout_s"], ends_with_worker=bool(plan["is_elastic"]))
        code, last_lines = _run_agent(words, plan["secret"], environment)
        if code == 0:
            yield host
            return
        if code != WORKER_FAILED_CODE:
            break
    output = "\n".join(last_lines)
    if code == WORKER_FAILED_CODE:
        raise RuntimeError(f"{place}: {WORKER_FAILED}\n{output}")
    raise RuntimeError(f"{place}: the agent ended with exit code {code}\n{output}")


def _run_agent(words: List[str], secret: str, environment: Dict[str, str]) -> Tuple[int, Iterable[str]]:
    """Runs an agent until it ends. Returns its exit code and its last lines."""
    last_lines: collections.deque[str] = collections.deque(maxlen=20)
    # The agent ends with its standard input, and so with this task, also when Spark kills it.
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=sys.stderr, env=environment, text=True
    ) as agent:
        assert agent.stdin is not None and agent.stderr is not None
        try:
            agent.stdin.write(secret + "\n")
            agent.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended, and its output says why
        for line in agent.stderr:
            sys.stderr.write(line)
            last_lines.append(line.rstrip())
        return agent.wait(), last_lines


def _require_version(place: str, version: str) -> None:
    remedy = f"install Farandole {version} for {sys.executable} on all executors"
    try:
        import farandole
    except ImportError as problem:
        raise RuntimeError(f"{place} cannot import farandole ({problem}): {remedy}") from None
    if farandole.__version__ != version:
        raise RuntimeError(f"{place} has Farandole {farandole.__version__}, and the driver has {version}: {remedy}")
