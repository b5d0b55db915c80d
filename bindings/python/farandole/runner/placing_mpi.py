"""Jobs in the places of a cluster whose workers mpirun starts.

Two launchers run. The job of the first keeps the agents of the places connected; its workers are programs that only
wait. The second launcher calls mpirun, whose remote shell into the places is ``farandole rsh``. This command lets the
agents start the daemons of mpirun, and the daemons start the workers of the second job.
"""

from __future__ import annotations

import dataclasses
import io
import shlex
import sys
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence

from farandole.runner import placing, program
from farandole.runner.functions import job, launcher

_IDLE_PROGRAM = "tail"
_IDLE_WORKER = (_IDLE_PROGRAM, "-f", "/dev/null")
"""A worker of the first job, which waits until it is ended."""
_OF_MPIRUN = {"OMPI_MCA_rtc_hwloc_vmhole": "none"}
"""Several daemons of Open MPI 4 on one host write the topology of the host to one file; some crash while they do. The
topology is not needed, because Farandole binds no ranks to cores here."""
CAUSE_S = 1.0
"""For how long a failure of mpirun is not reported, so that the loss of a place, which may be its cause, is."""


def run(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Optional[Dict[str, Any]],
    placer: placing.Placer,
    sizes: placing.Sizes,
    options: placing.Options,
    mpi_args: Optional[str] = None,
) -> List[Any]:
    """Runs a function on a worker in each place, as ``placing.run()`` does. The names of the places must contain no
    dots, because mpirun cuts names of hosts there.

    Raises as ``placing.run()`` does. Call ``require_mpirun()`` before, which finds a missing mpirun.

    :param sizes: of a job of fixed size
    :param mpi_args: more options of mpirun
    """

    def run_mpirun(places: _ConnectedPlaces, mpirun: _Mpirun) -> List[Any]:
        arguments = placing.arguments_of(sizes, options)
        arguments.agents, arguments.use_mpi, arguments.mpi_args = None, True, mpi_args
        arguments.hosts = ",".join(f"{name}:1" for name in sorted(places.places))
        environment = {**_OF_MPIRUN, **placing.environment_of(options), "FARANDOLE_RSH": places.remote_shell}
        return job.run_function(
            function, args, kwargs, arguments, environment, mpirun, options.streams, options.wording
        )

    worker = options.worker_command or [sys.executable, "-m", job.WORKER_MODULE]
    places = _ConnectedPlaces(placer, sizes.count, run_mpirun, _Mpirun(worker))
    hidden = io.StringIO()
    waiting = dataclasses.replace(
        options, environment=None, prefix_output_with_timestamp=False, verbose=False, streams=(hidden, hidden)
    )
    try:
        placing.run_in(places, lambda: None, (), {}, sizes, waiting)
    except _MpirunEnded as ended:
        if ended.problem is not None:
            raise ended.problem from None
    return places.results


def require_mpirun(options: placing.Options) -> None:
    """``ValueError`` if there is no mpirun of a known kind, before anything has started."""
    words = ("run", "--mpi", "--print-command", "-np", "1", "-H", "localhost:1", "true")
    program.output_of(*words, environment=placing.environment_of(options))


class _MpirunEnded(Exception):
    """Raised by the first job when the job of mpirun has ended.

    :ivar problem: the exception of the job of mpirun; None after a success
    """

    def __init__(self, problem: Optional[BaseException]) -> None:
        super().__init__("mpirun has ended")
        self.problem = problem


class _Mpirun:
    """The ``job.Cluster`` of the second job, which mpirun starts."""

    def __init__(self, worker_command: Sequence[str]) -> None:
        self.worker_command = worker_command
        self.problem: Optional[Exception] = None
        self._wake: Callable[[], None] = lambda: None

    def attach(self, running: launcher.Launcher) -> None:
        """mpirun is about to be called."""
        self._wake = running.wake

    def start(self, launcher: str) -> None:
        """Not called: mpirun starts the agents of its job."""

    def connected(self, host: str) -> None:
        """An agent that mpirun has started is connected."""

    def end(self, problem: Exception) -> None:
        """Ends the job of mpirun."""
        self.problem = problem
        self._wake()


class _ConnectedPlaces(placing.Cluster):
    """The places of the first job. When the agents of all are connected, a thread runs the job of mpirun."""

    def __init__(
        self,
        placer: placing.Placer,
        count: int,
        run_mpirun: Callable[[_ConnectedPlaces, _Mpirun], List[Any]],
        mpirun: _Mpirun,
    ) -> None:
        super().__init__(placer, _IDLE_WORKER)
        self._count, self._run_mpirun, self._mpirun = count, run_mpirun, mpirun
        self._launcher: Optional[launcher.Launcher] = None
        self._thread = threading.Thread(target=self._run, name="farandole mpirun", daemon=True)
        self._is_closed = threading.Event()
        self._ended: Optional[_MpirunEnded] = None
        self.results: List[Any] = []

    @property
    def problem(self) -> Optional[Exception]:
        """Why the first job must end: a problem of the cluster, or the end of the job of mpirun."""
        return self.placer.problem or self._ended

    @property
    def remote_shell(self) -> str:
        """The command line of the remote shell, without host and command."""
        assert self._launcher is not None
        return shlex.join([program.path_of_launcher(), "rsh", "--job", f"{_IDLE_PROGRAM}-{self._launcher.process_id}"])

    def attach(self, running: launcher.Launcher) -> None:
        super().attach(running)
        self._launcher = running

    def connected(self, host: str) -> None:
        super().connected(host)
        if len(self.places) == self._count:
            self._thread.start()

    def _run(self) -> None:
        assert self._launcher is not None
        problem: Optional[BaseException] = None
        try:
            self.results = self._run_mpirun(self, self._mpirun)
        except BaseException as raised:
            problem = raised
            self._is_closed.wait(CAUSE_S)
        self._ended = _MpirunEnded(problem)
        self._launcher.wake()

    def close(self, has_succeeded: bool) -> None:
        self._is_closed.set()
        if self._thread.ident is not None:
            self._mpirun.end(RuntimeError("the places have ended"))
            self._thread.join()
        super().close(bool(self.results))
