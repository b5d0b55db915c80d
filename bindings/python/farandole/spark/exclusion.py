"""Executors that Spark excludes because tasks have failed there (``spark.excludeOnFailure``).

Spark starts no more tasks there, but lets those that run continue. Workers of an elastic job must leave such an
executor, so their tasks are ended here. Spark starts them in another executor, and does not count this as a failure.
"""

from __future__ import annotations

import threading
import warnings
from typing import Any, Iterator, Set, Tuple

CHECK_S = 1.0
"""Seconds between two checks of the executors."""
_FIRST_WITHOUT_OLD_NAMES = 4
"""The first major version of Spark that ignores settings whose names begin with ``spark.blacklist``."""


_ENABLING = (
    "spark.excludeOnFailure.enabled",
    "spark.excludeOnFailure.application.enabled",
    "spark.excludeOnFailure.taskAndStage.enabled",
    "spark.blacklist.enabled",
)
"""The settings of Spark, old and new, any of which lets it exclude executors."""


class ExclusionWatch:
    """A thread that ends the tasks of a job group in executors that are excluded."""

    def __init__(self, context: Any, group: str) -> None:
        self._context, self._group = context, group
        self._end = threading.Event()
        self._ended: Set[int] = set()
        self._thread = threading.Thread(target=self._watch, name=f"farandole exclusions of {group}", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        has_warned = False
        while not self._end.wait(CHECK_S):
            try:
                self.check()
            except Exception as problem:
                if self._context._jsc is None:  # the context has been stopped
                    return
                if not has_warned:
                    has_warned = True
                    warnings.warn(
                        f"tasks in executors that Spark excludes cannot be moved: {problem!r}",
                        RuntimeWarning,
                        stacklevel=1,
                    )

    def check(self) -> None:
        """Ends the tasks in executors that are excluded now."""
        context = self._context._jsc.sc()
        executors = list(_each(context.statusStore().executorList(True)))
        for stage, task in tasks_of(self._context, self._group):
            identity, executor = task.taskId(), task.executorId()
            if task.status() != "RUNNING" or identity in self._ended:
                continue
            if any(_excludes(each, stage) for each in executors if each.id() == executor):
                self._ended.add(identity)
                context.killTaskAttempt(identity, True, f"Spark has excluded executor {executor}: the task moves")

    def close(self) -> None:
        """Ends the thread."""
        self._end.set()
        self._thread.join()


def _excludes(executor: Any, stage: int) -> bool:
    return bool(executor.isExcluded() or executor.excludedInStages().contains(stage))


def tasks_of(context: Any, group: str) -> Iterator[Tuple[int, Any]]:
    """The tasks of a job group as Spark describes them (``TaskData``), with the numbers of their stages."""
    tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
    for job in tracker.getJobIdsForGroup(group):
        described = tracker.getJobInfo(job)
        if described is None:  # Spark keeps only the latest jobs, and likewise stages
            continue
        for stage in described.stageIds:
            info = tracker.getStageInfo(stage)
            if info is not None:
                for task in _each(store.taskList(stage, info.currentAttemptId, 2**31 - 1)):
                    yield stage, task


def is_enabled(context: Any) -> bool:
    """Whether Spark may exclude executors."""
    values = dict(context.getConf().getAll())
    return any(values.get(name, "").lower() == "true" for name in _ENABLING)


def warn_of_old_names(context: Any) -> None:
    """Warns of settings whose names only older versions of Spark know."""
    old = sorted(name for name, _ in context.getConf().getAll() if name.startswith("spark.blacklist."))
    if old and int(context.version.split(".")[0]) >= _FIRST_WITHOUT_OLD_NAMES:
        warnings.warn(
            f"Spark {context.version} ignores {', '.join(old)}: give the settings their new names "
            "(spark.excludeOnFailure…), as horovod.spark.conf.renamed() does",
            RuntimeWarning,
            stacklevel=3,
        )


def _each(sequence: Any) -> Iterator[Any]:
    """The elements of a sequence of Scala."""
    return (sequence.apply(i) for i in range(sequence.size()))
