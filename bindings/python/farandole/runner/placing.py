"""Jobs in a cluster that starts processes in its own way: a placer starts an agent in each of its places.

A place is where workers can run: a task of Spark, a container, a process of a batch system. In each, the placer runs
``farandole agent``, which connects to the launcher of the job on this host, starts the workers, and forwards their
output. So the launcher decides about workers, failures and elastic membership as it does on other hosts, and the placer
only decides where agents run.

``docs/examples/placer.py`` is a placer that starts its agents as child processes.
"""

from __future__ import annotations

import os
import secrets
import sys
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Protocol, Sequence, TextIO, Tuple

from farandole.runner.arguments import _HorovodArgs
from farandole.runner.common.util.timeout import TimeoutException
from farandole.runner.functions import job, job_secret, launcher

COOLDOWN_S = (1, 60)
"""For how long a place of an elastic job on which a worker has died gets no other one: at first, and at most."""
_OF_THE_LAUNCHER = ("HOME", "PATH", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_STATE_HOME")
"""Variables of this process that the launcher needs."""


class Placer(Protocol):
    """The places of one job. All methods are called in the thread of ``run()``; ``start`` and ``connected`` must not
    wait."""

    problem: Optional[Exception]
    """Why the cluster cannot go on; None: it can. May be set in any thread, which then calls ``wake``: the job ends,
    and ``run()`` raises it."""
    wake: Callable[[], None]
    """Set by ``run()``."""

    def start(self, launcher: str, secret: str) -> None:
        """Starts an agent in each place, with ``agent_command(launcher, …)`` and the secret on its standard input."""

    def connected(self, place: str) -> None:
        """The agent of this place is connected."""

    def lost(self, problem: Exception) -> Exception:
        """Returns the exception for a job that has failed because an agent was lost: ``problem``, or one with the
        cluster's reason. May wait a second for it."""

    def close(self, has_succeeded: bool) -> None:
        """Waits for the end of the agents. After a failure, ends those that run or have not started."""


@dataclass
class Sizes:
    """The number of workers, one in each place."""

    count: int
    """Of a job of fixed size, or with which an elastic job begins."""
    fewest: Optional[int] = None
    """Of an elastic job, which waits if it has fewer; None: the size is fixed."""
    most: Optional[int] = None
    """Of an elastic job."""

    def __post_init__(self) -> None:
        if self.fewest is not None and not 1 <= self.fewest <= self.count <= self.limit:
            raise ValueError(
                f"an elastic job was given min_num_proc {self.fewest}, num_proc {self.count} and max_num_proc "
                f"{self.limit}: they must not decrease in this order, and not be below 1"
            )
        if self.count < 1:
            raise ValueError(f"the number of workers must be 1 or more, and not {self.count}")

    @property
    def limit(self) -> int:
        """The greatest number of workers, and so of places."""
        return self.count if self.most is None else self.most

    @property
    def is_elastic(self) -> bool:
        """Whether workers may come and go."""
        return self.fewest is not None


@dataclass
class Options:
    """How a job is launched; None: the default of ``horovodrun``."""

    start_timeout_s: int = 30
    elastic_timeout_s: Optional[int] = None
    reset_limit: Optional[int] = None
    verbose: bool = False
    nics: Optional[Iterable[str]] = None
    address: Optional[str] = None
    """The only address of this host at which agents reach it, such as 127.0.0.1; None: addresses of the interfaces."""
    prefix_output_with_timestamp: bool = False
    environment: Optional[Mapping[str, str]] = None
    """Variables of the workers in addition to those of their agents."""
    worker_command: Optional[Sequence[str]] = None
    """Runs ``farandole.runner.worker``; None: by the interpreter of this process."""
    streams: Tuple[Optional[TextIO], Optional[TextIO]] = (None, None)
    """Get the workers' output in place of ``sys.stdout`` and ``sys.stderr``."""
    wording: Optional[Callable[[str], str]] = None
    """Changes each line of the launcher. A caller whose arguments have other names than the launcher's options needs
    this."""


WORKER_FAILED_CODE = 70
"""The exit code of an agent that has ended because its worker failed; ``worker_failed_code`` in ``agent.hpp``."""


def agent_command(
    launcher: str, place: str, dial_timeout_s: int, slots: int = 1, ends_with_worker: bool = False
) -> List[str]:
    """The command line of an agent. The first line of its standard input must be the secret; the agent ends with its
    standard input.

    :param launcher: as ``Placer.start`` gets it
    :param place: a name that no other place of the job has; messages name workers by it
    :param ends_with_worker: whether the agent ends when a worker fails that was not told to end, so that the cluster
        can start the agent again
    """
    from farandole.runner import program

    words = [program.path_of_launcher(), "agent", "--launcher", launcher, "--secret-file", "-", "--host", place]
    words += ["--slots", str(slots), "--dial-timeout", str(dial_timeout_s)]
    return [*words, "--ends-with-worker"] if ends_with_worker else words


def run(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Optional[Dict[str, Any]],
    placer: Placer,
    sizes: Sizes,
    options: Options,
) -> List[Any]:
    """Runs a function on a worker in each place, and returns the results in the order of the ranks: of all workers, or
    of the first ``fewest`` of an elastic job.

    Raises as ``horovod.run()`` does, or the placer's problem. ``PlacesMissing`` if places have no agent in time.
    """
    worker = options.worker_command or [sys.executable, "-m", job.WORKER_MODULE]
    return run_in(Cluster(placer, worker), function, args, kwargs, sizes, options)


def run_in(
    cluster: Cluster,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Optional[Dict[str, Any]],
    sizes: Sizes,
    options: Options,
) -> List[Any]:
    """Runs a function as ``run()`` does, with a ``Cluster`` that the caller has created."""
    environment = {**environment_of(options), job_secret.TEXT_VARIABLE: cluster.secret}
    has_succeeded = False
    try:
        results = job.run_function(
            function,
            args,
            kwargs,
            arguments_of(sizes, options),
            environment,
            cluster,
            options.streams,
            options.wording,
        )
        has_succeeded = True
        return results
    except TimeoutException as problem:
        raise PlacesMissing(cluster.places, sizes, options) from problem
    except RuntimeError as problem:
        reason = cluster.problem
        if reason is None and "was lost" in str(problem):
            reason = cluster.placer.lost(problem)
        if reason is None or reason is problem:
            raise
        raise reason from problem
    finally:
        cluster.close(has_succeeded)


class PlacesMissing(TimeoutException):
    """Places have no agent within the start timeout."""

    def __init__(self, places: Sequence[str], sizes: Sizes, options: Options) -> None:
        self.places = sorted(places)
        """Those that have one."""
        wanted = sizes.count if sizes.fewest is None else sizes.fewest
        names = ", ".join(self.places) or "none"
        self.found = f"{len(places)} of {wanted} have started within {options.start_timeout_s} s ({names})"
        super().__init__(f"places have no agent: {self.found}")


def environment_of(options: Options) -> Dict[str, str]:
    """The environment of the launcher."""
    environment = {name: os.environ[name] for name in _OF_THE_LAUNCHER if name in os.environ}
    return {**environment, **(options.environment or {})}


def arguments_of(sizes: Sizes, options: Options) -> _HorovodArgs:
    """The arguments of the launcher."""
    arguments = _HorovodArgs()
    arguments.num_proc, arguments.agents = sizes.count, str(sizes.count)
    if sizes.is_elastic:
        arguments.agents = f"{sizes.fewest}:{sizes.limit}"
        arguments.min_num_proc, arguments.max_num_proc = sizes.fewest, sizes.limit
        arguments.elastic_timeout, arguments.reset_limit = options.elastic_timeout_s, options.reset_limit
        arguments.cooldown_range = COOLDOWN_S
    arguments.start_timeout, arguments.verbose = options.start_timeout_s, options.verbose
    arguments.nics = set(options.nics) if options.nics else None
    arguments.caller_address = options.address
    arguments.prefix_output_with_timestamp = options.prefix_output_with_timestamp
    return arguments


class Cluster:
    """Gives a placer the interface ``job.Cluster``, and records the places whose agents have connected."""

    def __init__(self, placer: Placer, worker_command: Sequence[str]) -> None:
        self.placer, self.worker_command = placer, worker_command
        self.secret = secrets.token_hex(32)
        """The secret of the job, which its agents need."""
        self.places: List[str] = []
        """The names of the places whose agents have connected."""

    @property
    def problem(self) -> Optional[Exception]:
        """Why the cluster cannot go on."""
        return self.placer.problem

    def attach(self, running: launcher.Launcher) -> None:
        """The job runs."""
        self.placer.wake = running.wake

    def start(self, launcher: str) -> None:
        """The job waits for agents."""
        self.placer.start(launcher, self.secret)

    def connected(self, host: str) -> None:
        """An agent is connected."""
        self.places.append(host)
        self.placer.connected(host)

    def close(self, has_succeeded: bool) -> None:
        """The job has ended."""
        self.placer.close(has_succeeded)
