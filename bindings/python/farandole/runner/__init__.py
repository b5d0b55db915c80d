"""Runs functions as jobs, and modules for tools around the launcher. Importing this package loads no framework and no
native library."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence

if TYPE_CHECKING:
    from farandole.runner.functions.session import Session as session

from farandole.runner.arguments import _HorovodArgs as _HorovodArgs
from farandole.runner.arguments import arguments_of as _arguments_of


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Optional[Dict[str, Any]] = None,
    num_proc: int = 1,
    min_num_proc: Optional[int] = None,
    max_num_proc: Optional[int] = None,
    slots: Optional[int] = None,
    reset_limit: Optional[int] = None,
    cooldown_range: Optional[Sequence[int]] = None,
    hosts: Optional[str] = None,
    hostfile: Optional[str] = None,
    host_discovery_script: Optional[str] = None,
    start_timeout: Optional[int] = None,
    ssh_port: Optional[int] = None,
    ssh_identity_file: Optional[str] = None,
    disable_cache: Optional[bool] = None,
    output_filename: Optional[str] = None,
    verbose: Optional[int] = None,
    use_gloo: Optional[bool] = None,
    use_mpi: Optional[bool] = None,
    mpi_args: Optional[str] = None,
    network_interface: Optional[str] = None,
    network_interfaces: Optional[Sequence[str]] = None,
    executable: Optional[str] = None,
    np: Optional[int] = None,
    min_np: Optional[int] = None,
    max_np: Optional[int] = None,
) -> List[Any]:
    """Runs a function on the workers of a job, and returns its results in the order of the ranks.

    The job is launched as ``horovodrun`` launches a command; the options have the same names and defaults. Function,
    arguments and results are pickled by cloudpickle, and travel over the job's authenticated connections. The workers'
    output goes to ``sys.stdout`` and ``sys.stderr``.

    ``RuntimeError`` for the first worker that fails, with its rank, its host and its traceback; ``ValueError`` for
    options that the launcher refuses; ``pickle.PicklingError`` where the function or an argument cannot be pickled;
    ``horovod.runner.common.util.timeout.TimeoutException`` where hosts have no agent within the start timeout, or an
    elastic job does not get enough slots within its timeout.

    :param func: is called with ``args`` and ``kwargs`` on each worker
    :param num_proc: number of workers
    :param min_num_proc: minimum number of workers; makes the job elastic, and is then the number of results
    :param max_num_proc: maximum number of workers of an elastic job
    :param slots: slots of hosts for which the discovery script prints none
    :param reset_limit: how often the workers of an elastic job may change
    :param cooldown_range: shortest and longest time in seconds for which a failed host gets no workers
    :param hosts: hosts and their slots, as in "a:2,b:2"
    :param hostfile: a file with a line "name slots=N" for each host
    :param host_discovery_script: a program that prints the present hosts; makes the job elastic
    :param start_timeout: seconds within which all workers must have started
    :param ssh_port: the port of ssh on other hosts
    :param ssh_identity_file: the key for ssh
    :param disable_cache: accepted; nothing is cached
    :param output_filename: a folder that gets a copy of each worker's output
    :param verbose: prints each step
    :param use_gloo: launches without MPI, which is the default
    :param use_mpi: launches by mpirun
    :param mpi_args: more arguments for mpirun
    :param network_interface: deprecated: ``network_interfaces``, separated by commas
    :param network_interfaces: the interfaces to use
    :param executable: the interpreter of the workers; by default that of the caller
    :param np: deprecated: ``num_proc``
    :param min_np: deprecated: ``min_num_proc``
    :param max_np: deprecated: ``max_num_proc``
    """
    from farandole.runner import launch

    if not callable(func):
        raise TypeError(f"func is a function, not {func!r}; for a command, use horovodrun")
    arguments = _arguments_of(
        num_proc,
        min_num_proc,
        max_num_proc,
        network_interface,
        network_interfaces,
        (np, min_np, max_np),
        slots=slots,
        reset_limit=reset_limit,
        cooldown_range=cooldown_range,
        hosts=hosts,
        hostfile=hostfile,
        host_discovery_script=host_discovery_script,
        start_timeout=start_timeout,
        ssh_port=ssh_port,
        ssh_identity_file=ssh_identity_file,
        disable_cache=disable_cache,
        output_filename=output_filename,
        verbose=bool(verbose),
        use_gloo=use_gloo,
        use_mpi=use_mpi,
        mpi_args=mpi_args,
        executable=executable,
    )
    arguments.run_func = functools.partial(func, *args, **(kwargs or {}))
    results: List[Any] = launch._run(arguments)
    return results


def __getattr__(name: str) -> Any:
    # A session needs more modules, which workers and tools do without.
    if name == "session":
        import importlib

        return importlib.import_module("farandole.runner.functions.session").Session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
