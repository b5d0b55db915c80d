"""Backends run the training processes of an estimator. To train elsewhere than in Spark tasks, derive a class from
``Backend``, or take ``LocalBackend``."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Optional, Sequence


def default_num_proc() -> int:
    """Spark's default parallelism; ``RuntimeError`` without an active SparkContext."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None:
        raise RuntimeError(
            "Could not find an active SparkContext: create a SparkSession before the estimator trains, or set backend"
        )
    return int(context.defaultParallelism)


class Backend:
    """Runs a function on all training processes at once."""

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Dict[str, Any] = {},  # noqa: B006  (the default that users know; nothing changes it)
        env: Optional[Dict[str, str]] = None,
    ) -> List[Any]:
        """Runs ``fn(*args, **kwargs)`` on ``num_processes()`` processes, each of them a rank of one job.

        :param env: variables to add to the environment of the processes
        :return: the results in the order of the ranks
        """
        raise NotImplementedError(f"{type(self).__name__} has no method run")

    def num_processes(self) -> int:
        """The number of processes that ``run`` starts."""
        raise NotImplementedError(f"{type(self).__name__} has no method num_processes")


class SparkBackend(Backend):
    """Runs the processes in Spark tasks.

    :param num_proc: number of processes; by default Spark's default parallelism
    :param env: variables to add to the environment of the processes
    :param kwargs: further arguments of ``horovod.spark.run``, such as ``start_timeout`` or ``verbose``
    """

    def __init__(self, num_proc: Optional[int] = None, env: Optional[Dict[str, str]] = None, **kwargs: Any) -> None:
        self._num_proc = num_proc if num_proc is not None else default_num_proc()
        self._env = dict(env or {})
        self._kwargs = kwargs

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Dict[str, Any] = {},  # noqa: B006
        env: Optional[Dict[str, str]] = None,
    ) -> List[Any]:
        """Runs the function in Spark tasks by ``horovod.spark.run``."""
        from farandole.spark.runner import run

        variables = {**self._env, **(env or {})}
        options = {"verbose": 1, **self._kwargs}
        results: List[Any] = run(
            fn, args=tuple(args), kwargs=dict(kwargs), num_proc=self._num_proc, env=variables or None, **options
        )
        return results

    def num_processes(self) -> int:
        """The number of Spark tasks that train."""
        return self._num_proc


class LocalBackend(Backend):
    """Runs the processes on the machine of the caller, or on the hosts that ``hosts=`` names, without Spark tasks.

    :param num_proc: number of processes
    :param env: variables to add to the environment of the processes
    :param kwargs: further arguments of ``horovod.run``, such as ``hosts`` or ``start_timeout``
    """

    def __init__(self, num_proc: int = 1, env: Optional[Dict[str, str]] = None, **kwargs: Any) -> None:
        self._num_proc = num_proc
        self._env = dict(env or {})
        self._kwargs = kwargs

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Dict[str, Any] = {},  # noqa: B006
        env: Optional[Dict[str, str]] = None,
    ) -> List[Any]:
        """Runs the function by ``horovod.run``."""
        from farandole.runner import run

        call = WithVariables(fn, {**self._env, **(env or {})})
        return run(call, tuple(args), dict(kwargs), num_proc=self._num_proc, **self._kwargs)

    def num_processes(self) -> int:
        """The number of processes that train."""
        return self._num_proc


class WithVariables:
    """A function that first adds variables to the environment of the process in which it is called."""

    def __init__(self, fn: Callable[..., Any], variables: Dict[str, str]) -> None:
        self._fn = fn
        self._variables = variables

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Sets the variables and calls the function."""
        os.environ.update(self._variables)
        return self._fn(*args, **kwargs)
