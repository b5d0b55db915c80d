"""The tasks of a Spark job as places for workers: in each, an agent that connects to the job's launcher.

Spark runs the tasks in a thread of the driver, decides where they run, and in elastic jobs starts those again that have
ended.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence

from farandole.runner import placing
from farandole.spark import exclusion
from farandole.spark.task import agent_program
from farandole.spark.task.task_info import RESOURCES_VARIABLE

REASON_S = 1.0
"""How long a job that has lost a task waits for Spark's reason."""
DISMISSAL_S = 10.0
"""How long the tasks may take to end after their agents were told to."""
CANCEL_S = 30.0
"""How long Spark may take to end the tasks of a job that it was told to cancel."""
_SETTINGS = " ".join(f'{name}="${given}"' for name, given in agent_program.OF_WORKERS.items())
WORKER_COMMAND: Sequence[str] = (
    "/bin/sh",
    "-c",
    f'{_SETTINGS} exec "${agent_program.PYTHON_VARIABLE}" -m farandole.runner.worker',
)
"""Starts a worker with the interpreter and the home folder of its task, which may differ from those of the driver."""
_LOST_EXECUTOR = (
    "The Spark executor of this task has died, or Spark has ended the task: the executor's log says why. "
    "horovod.spark.run_elastic() goes on without the workers of an executor that dies"
)
_GIVEN_UP = re.compile(r"[Tt]ask \d+ in stage \S+ failed \d+ times|[Tt]ask \d+ .*cannot run anywhere")
"""Parts of Spark's message when it ends a job because tasks have failed, for example because executors have died."""
_RAISED = re.compile(r"(\w+\.)*\w*(Error|Exception): ")
"""The start of the line of a traceback that has the exception."""
_WITHOUT_NAME = re.compile(r"^(\w+\.)*(PySpark)?(RuntimeError|Exception): ")
"""The names of exceptions that add nothing to their text."""
_numbers = itertools.count()


class SparkTasks:
    """The tasks of one job; a ``Placer``."""

    def __init__(self, context: Any, sizes: placing.Sizes, executable: Optional[str], dial_timeout_s: int) -> None:
        """
        :param context: the ``SparkContext``
        :param executable: the interpreter of the workers; None: that of the tasks
        :param dial_timeout_s: how long an agent tries to reach the launcher
        """
        import farandole

        self._context, self._sizes = context, sizes
        self._plan: Dict[str, Any] = {
            "version": farandole.__version__,
            "dial_timeout_s": dial_timeout_s,
            "executable": executable,
            "resources_variable": RESOURCES_VARIABLE,
            "is_elastic": sizes.is_elastic,
            "failures": self._failures_in_a_task() if sizes.is_elastic else 1,
        }
        self.problem: Optional[Exception] = None
        """Why Spark has ended the tasks; None: it has not."""
        self.wake: Callable[[], None] = lambda: None
        self.group = f"horovod.spark.run.{next(_numbers)}"
        """The name of the job group."""
        self._thread: Optional[threading.Thread] = None
        self._exclusions: Optional[exclusion.ExclusionWatch] = None
        self._is_closing = False

    def _failures_in_a_task(self) -> int:
        """How many workers may fail in one attempt of a task. Usually it is one, because Spark then starts the task
        again. In local mode Spark does so only if the master has a number of failures, such as local[4,2]."""
        starts_again = not re.fullmatch(r"local(\[[^,]*\])?", self._context.master)
        return 1 if starts_again else self.most_failures

    @property
    def most_failures(self) -> int:
        """After how many failures of a task Spark ends the job."""
        of_master = re.fullmatch(r"local\[[^,]*,\s*(\d+)\s*\]", self._context.master)
        if of_master:
            return int(of_master[1])
        return int(self._context.getConf().get("spark.task.maxFailures", "4"))

    def start(self, launcher: str, secret: str) -> None:
        """Starts the Spark job."""
        from pyspark import InheritableThread

        self._plan.update(launcher=launcher, secret=secret)
        self._thread = InheritableThread(target=self._run, name=f"farandole {self.group}", daemon=True)
        self._thread.start()
        if self._sizes.is_elastic and exclusion.is_enabled(self._context):
            self._exclusions = exclusion.ExclusionWatch(self._context, self.group)

    def connected(self, place: str) -> None:
        """The agent of a task is connected."""

    @property
    def can_start_all_at_once(self) -> bool:
        """Whether the cluster has room for all tasks now, so that barrier mode can be used: they fail together."""
        if self._context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true":
            return False  # barrier mode refuses it
        try:
            context = self._context._jsc.sc()
            profiles = self._context._jvm.org.apache.spark.resource.ResourceProfile
            most = context.maxNumConcurrentTasks(profiles.getOrCreateDefaultProfile(context.getConf()))
        except Exception:
            return False  # a Spark without this method: its tasks start one by one
        return bool(most >= self._sizes.limit)

    def _run(self) -> None:
        from pyspark import cloudpickle

        count = self._sizes.limit
        try:
            self._context.setJobGroup(self.group, f"{count} workers of Farandole", interruptOnCancel=True)
            tasks = self._context.parallelize(range(count), count)
            if not self._sizes.is_elastic and self.can_start_all_at_once:
                tasks = tasks.barrier()
            plan, serve = self._plan, agent_program.serve
            cloudpickle.register_pickle_by_value(agent_program)
            tasks.mapPartitionsWithIndex(lambda index, _: serve(index, plan)).collect()
        except Exception as problem:
            if not self._is_closing:
                self.problem = self._explained(problem)
                self.problem.__cause__ = problem
                self.wake()

    def _explained(self, problem: Exception) -> Exception:
        """The exception to raise for one of Spark: its text has the reason, and the host if Spark knows it."""
        reason = reason_of(problem)
        if " on host " not in reason:  # a task has failed before it knew its host, as with another version of Python
            with contextlib.suppress(Exception):  # the context may have been stopped
                tasks = exclusion.tasks_of(self._context, self.group)
                failed = next((task for _, task in tasks if task.status() == "FAILED"), None)
                if failed is not None:
                    reason = f"Spark task {failed.index()} on host {failed.host()}: {reason}"
        has_given_up = agent_program.WORKER_FAILED in reason or _GIVEN_UP.search(str(problem)) is not None
        if not has_given_up or not self._sizes.is_elastic:
            return RuntimeError(f"the Spark job of the workers has failed: {reason}")
        return TasksFailedError(
            f"Spark gives the job up after failures of its tasks: spark.task.maxFailures is {self.most_failures}, and "
            f"spark.excludeOnFailure can exclude executors. The last failure was: {reason}"
        )

    def lost(self, problem: Exception) -> Exception:
        """A job of fixed size has lost a task: waits for Spark's reason."""
        if self._thread is not None:
            self._thread.join(REASON_S)
        if self.problem is not None or self._sizes.is_elastic:
            return self.problem or problem
        return RuntimeError(f"{problem}\n{_LOST_EXECUTOR}")

    def close(self, has_succeeded: bool) -> None:
        """Waits for the end of the tasks. After a failure, those that run or have not started are cancelled."""
        self._is_closing = True
        if self._exclusions is not None:
            self._exclusions.close()
        if self._thread is None:
            return
        if has_succeeded:  # the launcher has dismissed the agents
            self._thread.join(DISMISSAL_S)
        if self._thread.is_alive():
            with contextlib.suppress(Exception):  # the context may have been stopped
                self._context.cancelJobGroup(self.group)
            self._thread.join(CANCEL_S)


class TasksFailedError(RuntimeError):
    """A task of an elastic job has failed as often as Spark allows."""


def reason_of(problem: Exception) -> str:
    """The reason in an exception of Spark, without the stacks of the Java machine."""
    java = getattr(problem, "java_exception", None)
    text = str(java.getMessage() if java is not None else problem) or type(problem).__name__
    lines: List[str] = text.splitlines()
    # A Python worker's traceback ends with the exception and its lines; Java's stack follows.
    raised = [i for i, line in enumerate(lines) if _RAISED.match(line)]
    if raised:
        kept = itertools.takewhile(lambda line: line.strip() and not line.startswith("\tat "), lines[raised[-1] :])
        return _WITHOUT_NAME.sub("", "\n".join(kept))
    return "\n".join(itertools.takewhile(lambda line: not line.startswith(("\tat ", "Driver stacktrace")), lines))
