"""Runs one function as a job: starts the launcher, serves the function to the workers, and returns their results."""

from __future__ import annotations

import sys
from typing import Any, Callable, List, Mapping, Optional, Protocol, Sequence, TextIO, Tuple

from farandole.runner import launch_options, program
from farandole.runner.common.util.timeout import TimeoutException
from farandole.runner.functions import call, launcher, paths, pickling

WORKER_MODULE = "farandole.runner.worker"


class Cluster(launcher.AgentStarter, Protocol):
    """A cluster that starts the agents of one job, and so the workers, which are children of the agents."""

    worker_command: Sequence[str]
    """Starts ``farandole.runner.worker`` on a host of the cluster."""

    @property
    def problem(self) -> Optional[Exception]:
        """Why the cluster cannot go on; None: it can."""

    def attach(self, running: launcher.Launcher) -> None:
        """The job runs. ``running.wake()`` may be called in any thread, and makes the job look for a problem."""


def run_function(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Any,
    arguments: Any,
    environment: Optional[Mapping[str, str]] = None,
    cluster: Optional[Cluster] = None,
    streams: Tuple[Optional[TextIO], Optional[TextIO]] = (None, None),
    wording: Optional[Callable[[str], str]] = None,
) -> List[Any]:
    """The results of the function by rank.

    :param arguments: how the job is launched; see ``farandole.runner.arguments``
    :param environment: of the launcher and the workers; None: that of this process
    :param cluster: starts the agents; ``arguments`` has their number. The job ends when it has a problem
    :param streams: get the workers' output in place of ``sys.stdout`` and ``sys.stderr``
    :param wording: changes the launcher's lines, also in the exception
    """
    pieces = pickling.pieces_of((function, tuple(args), dict(kwargs or {})), "(func, args, kwargs)")
    is_elastic = is_elastic_launch(arguments)
    current = call.Call(pieces, paths.folders_of_caller(), is_elastic)
    worker = cluster.worker_command if cluster is not None else worker_command(arguments)
    job = launcher.Launcher(
        lambda channel: command_of(arguments, channel, worker),
        paths.environment_of(arguments.executable, environment) if cluster is None else dict(environment or {}),
        current,
        agents=cluster,
        streams=streams,
        wording=wording,
    )
    is_ending = False
    try:
        if cluster is not None:
            cluster.attach(job)
        while job.is_running:
            for slot, content in current.take_outgoing():
                job.send(slot, content)
            if cluster is not None and cluster.problem is not None and not is_ending:
                is_ending = True
                job.terminate()
            job.step()
    finally:
        job.close()
    return _outcome(current, job, arguments, is_elastic)


def is_elastic_launch(arguments: Any) -> bool:
    """Whether workers may come and go."""
    return arguments.min_num_proc is not None or arguments.host_discovery_script is not None


def worker_command(arguments: Any, *options: str) -> List[str]:
    """The command line of a worker."""
    return [arguments.executable or sys.executable, "-m", WORKER_MODULE, *options]


def command_of(arguments: Any, channel: int, worker: Sequence[str]) -> List[str]:
    """The launcher's command line, for workers with this one."""
    words = launch_options.words_of_launch(arguments)
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
    text = call.failure_text(failure, lines, code)
    for is_used, name in ((arguments.use_mpi, "mpirun"), (arguments.use_jsrun, "jsrun")):
        if is_used:
            text = f"{name} failed with exit code {code}\n{text}"
    raise TimeoutException(text) if job.has_timed_out and failure is None else RuntimeError(text)


USAGE_ERROR = 2
"""The exit code by which the launcher refuses its options."""
