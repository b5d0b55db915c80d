"""Runs one function as a job: starts the launcher, serves the function to the workers, and returns their results."""

from __future__ import annotations

import sys
from typing import Any, Callable, List, Mapping, Optional, Sequence

from farandole.runner import launch_options, program
from farandole.runner.functions import call, launcher, paths, pickling

WORKER_MODULE = "farandole.runner.worker"


def run_function(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Any,
    arguments: Any,
    environment: Optional[Mapping[str, str]] = None,
) -> List[Any]:
    """The results of the function by rank.

    :param arguments: how the job is launched; see ``farandole.runner.arguments``
    :param environment: of the launcher and the workers; None: that of this process
    """
    pieces = pickling.pieces_of((function, tuple(args), dict(kwargs or {})), "(func, args, kwargs)")
    is_elastic = is_elastic_launch(arguments)
    current = call.Call(pieces, paths.folders_of_caller(), is_elastic)
    job = launcher.Launcher(
        lambda channel: command_of(arguments, channel), paths.environment_of(arguments.executable, environment), current
    )
    try:
        while job.is_running:
            for slot, content in current.take_outgoing():
                job.send(slot, content)
            job.step()
    finally:
        job.close()
    return _outcome(current, job, arguments, is_elastic)


def is_elastic_launch(arguments: Any) -> bool:
    """Whether workers may come and go."""
    return arguments.min_num_proc is not None or arguments.host_discovery_script is not None


def command_of(arguments: Any, channel: int, worker_options: Sequence[str] = ()) -> List[str]:
    """The launcher's command line."""
    words = launch_options.words_of(arguments)
    worker = [arguments.executable or sys.executable, "-m", WORKER_MODULE, *worker_options]
    return [program.path_of_launcher(), "run", "--call-descriptor", str(channel), *words, "--", *worker]


def _outcome(current: call.Call, job: launcher.Launcher, arguments: Any, is_elastic: bool) -> List[Any]:
    # An elastic job guarantees min_num_proc workers only.
    count = (arguments.min_num_proc if is_elastic else None) or arguments.num_proc
    lines, code = job.stderr.launcher_lines(), job.exit_code
    results = current.results(count)
    if code == 0 and results is not None and (is_elastic or not current.failures):
        return results
    failure = current.cause(lines)
    if code == 0 and failure is None:
        rank = current.first_missing(count)
        raise RuntimeError(f"the job ended with exit code 0, but rank {rank} of {count} did not return a result")
    if code == USAGE_ERROR and not current.has_workers:
        refusal = [line for line in lines if not line.startswith("usage: ")]
        raise ValueError("\n".join(refusal) or f"the launcher ended with exit code {code}")
    if arguments.use_mpi and failure is None:
        raise RuntimeError("\n".join([f"mpirun failed with exit code {code}", *lines]))
    raise RuntimeError(call.failure_text(failure, lines, code))


USAGE_ERROR = 2
"""The exit code by which the launcher refuses its options."""
