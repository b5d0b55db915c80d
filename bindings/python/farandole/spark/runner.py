"""``horovod.spark.run()`` and ``run_elastic()``: functions on workers in the executors of a Spark cluster."""

from __future__ import annotations

import functools
import os
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, TextIO, Tuple

from farandole.runner import placing, placing_mpi
from farandole.runner.common.util.timeout import TimeoutException
from farandole.runner.functions import call as function_call
from farandole.spark import exclusion
from farandole.spark.cluster import WORKER_COMMAND, SparkTasks, TasksFailedError
from farandole.spark.wording import with_arguments

START_TIMEOUT_S = 600


def run(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Optional[Dict[str, Any]] = {},  # noqa: B006 - the documented default; it is not changed
    num_proc: Optional[int] = None,
    start_timeout: Optional[int] = None,
    use_mpi: Optional[bool] = None,
    use_gloo: Optional[bool] = None,
    extra_mpi_args: Optional[str] = None,
    env: Optional[Mapping[str, str]] = None,
    stdout: Optional[TextIO] = None,
    stderr: Optional[TextIO] = None,
    verbose: int = 1,
    nics: Optional[Iterable[str]] = None,
    prefix_output_with_timestamp: bool = False,
    executable: Optional[str] = None,
) -> List[Any]:
    """Runs a function on workers in the executors of Spark, and returns its results in the order of the ranks.

    Each worker is a process beside a Spark task. ``Exception`` without an active SparkContext; ``TimeoutException`` if
    the tasks do not start in time; ``RuntimeError`` with the cause if a worker or the Spark job fails.

    :param fn: is called with ``args`` and ``kwargs`` on each worker; pickled by cloudpickle
    :param num_proc: number of workers; by default ``spark.default.parallelism``
    :param start_timeout: seconds within which all tasks must have started; by default those of
        HOROVOD_SPARK_START_TIMEOUT, or 600
    :param use_mpi: lets mpirun start the workers, with ``farandole rsh`` as its remote shell into the tasks
    :param use_gloo: launches without MPI, which is the default
    :param extra_mpi_args: more options of mpirun
    :param env: variables of the workers in addition to those of their executors; those of the driver are not passed on
    :param stdout: a text stream that gets the workers' output; by default ``sys.stdout``
    :param stderr: the same for their errors
    :param verbose: 2 prints each step
    :param nics: the network interfaces to use
    :param prefix_output_with_timestamp: adds the time to each line of output
    :param executable: the interpreter of the workers; by default that of Spark's tasks
    """
    if use_mpi and use_gloo:
        raise ValueError(
            "use_gloo and use_mpi exclude each other: horovod.spark.run() was given both; leave one of them out"
        )
    if extra_mpi_args and not use_mpi:
        raise ValueError(
            f"extra_mpi_args='{extra_mpi_args}' has no effect without use_mpi=True: add that, or leave extra_mpi_args "
            "out"
        )
    context = _active_context()
    options = _options(context, start_timeout, verbose, nics, env, prefix_output_with_timestamp, (stdout, stderr))
    sizes = placing.Sizes(context.defaultParallelism if num_proc is None else num_proc)
    if use_mpi:
        placing_mpi.require_mpirun(options)
        call = functools.partial(placing_mpi.run, fn, args, kwargs, mpi_args=extra_mpi_args)
    else:
        call = functools.partial(placing.run, fn, args, kwargs)
    return _run(call, context, sizes, options, executable)


def run_elastic(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Optional[Dict[str, Any]] = {},  # noqa: B006 - the documented default; it is not changed
    num_proc: Optional[int] = None,
    min_num_proc: Optional[int] = None,
    max_num_proc: Optional[int] = None,
    start_timeout: Optional[int] = None,
    elastic_timeout: Optional[int] = None,
    reset_limit: Optional[int] = None,
    env: Optional[Mapping[str, str]] = None,
    stdout: Optional[TextIO] = None,
    stderr: Optional[TextIO] = None,
    verbose: int = 1,
    nics: Optional[Iterable[str]] = None,
    prefix_output_with_timestamp: bool = False,
    min_np: Optional[int] = None,
    max_np: Optional[int] = None,
) -> List[Any]:
    """Runs a function on workers that may come and go: Spark replaces executors that die, and their workers join.

    Returns the results of the first ``min_num_proc`` ranks, in their order. Other parameters are those of ``run()``.

    :param num_proc: number of workers to begin with; by default ``spark.default.parallelism``
    :param min_num_proc: the job waits when it has fewer; by default ``num_proc``
    :param max_num_proc: the greatest number, and the number of Spark tasks; by default ``num_proc``
    :param elastic_timeout: seconds to wait for ``min_num_proc`` workers
    :param reset_limit: how often the workers may change
    :param min_np: deprecated: ``min_num_proc``
    :param max_np: deprecated: ``max_num_proc``
    """
    import warnings

    for old, new in (("min_np", min_np), ("max_np", max_np)):
        if new is not None:
            warnings.warn(f"{old} is deprecated; use {old}_num_proc".replace("_np_num", "_num"), DeprecationWarning, 2)
    context = _active_context()
    exclusion.warn_of_old_names(context)
    count = context.defaultParallelism if num_proc is None else num_proc
    fewest = next(each for each in (min_np, min_num_proc, count) if each is not None)
    most = next(each for each in (max_np, max_num_proc, max(count, fewest)) if each is not None)
    sizes = placing.Sizes(count, fewest, most)
    options = _options(context, start_timeout, verbose, nics, env, prefix_output_with_timestamp, (stdout, stderr))
    options.elastic_timeout_s, options.reset_limit = elastic_timeout, reset_limit
    return _run(functools.partial(placing.run, fn, args, kwargs), context, sizes, options, None)


def _active_context() -> Any:
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None:
        raise Exception(
            "horovod.spark.run() needs an active SparkContext: create one before, as by "
            "SparkSession.builder.getOrCreate()"
        )
    return context


def _options(
    context: Any,
    start_timeout: Optional[int],
    verbose: int,
    nics: Optional[Iterable[str]],
    env: Optional[Mapping[str, str]],
    prefix_output_with_timestamp: bool,
    streams: Tuple[Optional[TextIO], Optional[TextIO]],
) -> placing.Options:
    given = os.environ.get("HOROVOD_SPARK_START_TIMEOUT")
    driver = context.getConf().get("spark.driver.host", "")
    return placing.Options(
        start_timeout_s=start_timeout or (int(given) if given else START_TIMEOUT_S),
        verbose=verbose is not None and verbose >= 2,
        nics=nics,
        # With such an address of the driver, all executors are on this host.
        address="127.0.0.1" if driver == "localhost" or driver.startswith("127.") else None,
        prefix_output_with_timestamp=prefix_output_with_timestamp,
        environment=env,
        worker_command=WORKER_COMMAND,
        streams=streams,
        wording=with_arguments,
    )


def _run(
    call: Callable[..., List[Any]],
    context: Any,
    sizes: placing.Sizes,
    options: placing.Options,
    executable: Optional[str],
) -> List[Any]:
    """Calls ``placing.run`` or ``placing_mpi.run``, whose places are tasks of Spark.

    :param call: one of the two functions, with all its other arguments
    """
    tasks = SparkTasks(context, sizes, executable, options.start_timeout_s)
    try:
        return call(placer=tasks, sizes=sizes, options=options)
    except TasksFailedError as reason:
        failure = str(reason.__cause__)  # of the worker that failed first
        if not failure.startswith(function_call.SUMMARY):
            failure = f"{function_call.SUMMARY}."
        # Python would print the failure a second time, with the traceback of the worker, as the cause of the reason.
        raise RuntimeError(f"{failure}\n{reason}") from None
    except placing.PlacesMissing as problem:
        raise TimeoutException(
            f"Timed out waiting for Spark tasks to start. {problem.found}. Ask for fewer processes (num_proc), give "
            "the application more executors or cores, end other jobs of this application, or wait longer "
            "(start_timeout, or HOROVOD_SPARK_START_TIMEOUT)"
        ) from problem
