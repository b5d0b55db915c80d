"""Launches commands and functions with the settings objects of Horovod, for tools that call ``gloo_run``.

Tools replace functions of this module, so each is looked up when it is called.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import math
import os
import shlex
import signal
import sys
import threading
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from farandole.runner import launch_options, program
from farandole.runner.arguments import _HorovodArgs
from farandole.runner.common.util.hosts import SlotInfo
from farandole.runner.functions import call, job_secret, placement
from farandole.runner.util import network

ExecCommand = Callable[[str, SlotInfo, List[threading.Event]], Tuple[int, float]]
"""Runs a text of the shell on the host of a slot until it ends, or until one of the events is set. Returns the exit
code and the time of the end."""


def register_shutdown_event() -> threading.Event:
    """An event that SIGINT, SIGTERM and SIGHUP set from now on. In a thread other than the main one, signals keep their
    handlers, and ignored ones stay ignored."""
    event = threading.Event()
    if threading.current_thread() is threading.main_thread():
        for each in program.ending_signals():
            signal.signal(each, lambda *_: event.set())
    return event


@contextlib.contextmanager
def _restored_signals() -> Iterator[None]:
    """Restores the handlers that ``register_shutdown_event()`` replaces."""
    previous = {each: signal.getsignal(each) for each in program.FORWARDED}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in previous.items():
                if handler is not None:  # None: it was not set by Python
                    signal.signal(number, handler)


def launch_gloo(
    command: Union[str, Sequence[str]],
    exec_command: ExecCommand,
    settings: Any,
    nics: Optional[Iterable[str]],
    env: Mapping[str, str],
    server_ip: str,
) -> None:
    """Runs a command on the hosts of the settings, where ``exec_command`` starts each worker; ``RuntimeError`` if the
    job fails.

    The workers need the job's secret. Its file is FARANDOLE_SECRET_FILE in their environment. If that variable is not
    set here, it names a new file on this host, which workers on other hosts cannot read: set it to a file that all
    hosts have.

    :param exec_command: is called in a thread for each slot with the text to run, the slot and a list of events. It
        also handles the output of the worker; the settings' output folder has no effect
    :param env: variables for the workers in addition
    :param server_ip: the address of this host at which workers reach the launcher
    """
    arguments = _placed_arguments_of(settings, nics, server_ip)
    arguments.hosts = settings.hosts
    environment = {**os.environ, **env}

    def start(slot_info: SlotInfo, variables: Dict[str, str], events: List[threading.Event]) -> Tuple[int, float]:
        # Variables of the launcher win over those of the caller.
        text = placement.command_text(command, {**placement.exportable(env), **variables})
        return exec_command(text, slot_info, events)

    with _restored_signals():
        event = register_shutdown_event()
        secret = job_secret.SecretFile(environment)
        try:
            environment[job_secret.FILE_VARIABLE] = secret.path
            workers = placement.PlacedWorkers(start, environment, event)
            code, lines = placement.run_job(arguments, workers, environment, event)
        finally:
            secret.close()
    if code != 0:
        raise RuntimeError(call.failure_text(None, lines, code)) from workers.problem


def launch_gloo_elastic(
    command_or_func: Any,
    exec_command: ExecCommand,
    settings: Any,
    env: Mapping[str, str],
    get_common_interfaces: Callable[[Any], Iterable[str]],
    rendezvous: Any,
    executable: Optional[str],
) -> Optional[List[Any]]:
    """Runs a command or a function on the hosts that the discovery of the settings finds, where ``exec_command`` starts
    each worker. Returns the results of a function in the order of the ranks; ``RuntimeError`` if the job fails, and
    ``TimeoutException`` if there are too few slots. About the secret, see ``launch_gloo``.

    :param get_common_interfaces: is called with the ``ElasticDriver``, and returns the interfaces to use
    :param rendezvous: a ``RendezvousServer`` that has not been started
    """
    # These load the native library, which jobs of fixed size do without.
    from farandole.runner.elastic.driver import ElasticDriver
    from farandole.runner.elastic.rendezvous import create_rendezvous_handler

    driver = ElasticDriver(
        rendezvous,
        settings.discovery,
        settings.min_num_proc or settings.num_proc,
        settings.max_num_proc,
        timeout=settings.elastic_timeout,
        reset_limit=settings.reset_limit,
        cooldown_range=settings.cooldown_range,
        verbose=settings.verbose,
    )
    with contextlib.ExitStack() as ending:
        ending.enter_context(_restored_signals())
        driver.shutdown = register_shutdown_event()
        rendezvous.start(create_rendezvous_handler(driver))
        ending.callback(rendezvous.stop)
        driver.wait_for_available_slots(settings.num_proc, _get_min_start_hosts(settings))
        nics = get_common_interfaces(driver)
        server_ip = network.get_driver_ip(nics)
        rendezvous.address = server_ip
        if callable(command_or_func):
            from farandole.runner import run_task

            results = run_task.Results(command_or_func, server_ip)
            ending.callback(results.close)
            command: Any = results.command(executable or sys.executable)
        else:
            results, command = None, command_or_func

        def start(slot_info: SlotInfo, variables: Dict[str, str], events: List[threading.Event]) -> Tuple[int, float]:
            text = placement.command_text(command, {**placement.exportable(env), **variables})
            return exec_command(text, slot_info, events)

        arguments = _placed_arguments_of(settings, nics, server_ip)
        ending.callback(driver.stop)
        driver._start(settings.num_proc, start, arguments, {**os.environ, **env})
        outcome = driver.get_results()
        if outcome.error_message is not None:
            raise RuntimeError(outcome.error_message)
        return results.of(settings.min_num_proc or settings.num_proc) if results is not None else None


def _get_min_start_hosts(settings: Any) -> int:
    """The number of hosts that must be present before an elastic job starts."""
    return 1


def create_run_env_vars(server_ip: str, nics: Iterable[str], port: int, elastic: bool = False) -> Dict[str, str]:
    """The variables by which workers find the rendezvous of their job."""
    variables = {
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": server_ip,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
        "HOROVOD_CONTROLLER": "gloo",
        "PYTHONUNBUFFERED": "1",
    }
    names = sorted(nics or ())
    if names:
        variables["HOROVOD_GLOO_IFACE"], variables["NCCL_SOCKET_IFNAME"] = names[0], ",".join(names)
    if elastic:
        variables["HOROVOD_ELASTIC"] = "1"
    if job_secret.FILE_VARIABLE in os.environ:
        variables[job_secret.FILE_VARIABLE] = os.environ[job_secret.FILE_VARIABLE]
    return variables


def create_slot_env_vars(slot_info: SlotInfo) -> Dict[str, str]:
    """The variables that tell a worker its place."""
    return {
        "HOROVOD_HOSTNAME": str(slot_info.hostname),
        "HOROVOD_RANK": str(slot_info.rank),
        "HOROVOD_SIZE": str(slot_info.size),
        "HOROVOD_LOCAL_RANK": str(slot_info.local_rank),
        "HOROVOD_LOCAL_SIZE": str(slot_info.local_size),
        "HOROVOD_CROSS_RANK": str(slot_info.cross_rank),
        "HOROVOD_CROSS_SIZE": str(slot_info.cross_size),
    }


def gloo_run(settings: Any, nics: Optional[Iterable[str]], env: Mapping[str, str], server_ip: Any, command: Any) -> Any:
    """Runs a command on the hosts of the settings; ``CommandFailed`` if it fails. Returns the results of a function,
    which ``launch._run`` passes with the settings.

    :param command: words, or a text for the shell
    :param server_ip: not used: the launcher chooses its address
    """
    arguments = arguments_on_hosts(settings, nics)
    return launched(arguments, env, command)


def gloo_run_elastic(
    settings: Any, env: Mapping[str, str], command_or_func: Any, executable: Optional[str]
) -> Optional[Any]:
    """Runs a command or a function on the hosts that the discovery of the settings finds. Returns the results of a
    function in the order of the ranks; ``RuntimeError`` if the job fails."""
    from farandole.runner.elastic import driver as elastic_driver

    arguments = _arguments_of(settings, settings.nics)
    arguments.executable = executable
    for name in ("min_num_proc", "max_num_proc", "elastic_timeout", "reset_limit", "cooldown_range"):
        setattr(arguments, name, getattr(settings, name))
    arguments.min_num_proc = settings.min_num_proc or settings.num_proc
    environment = elastic_driver.discovery_environment(env)
    with elastic_driver.script_of(settings.discovery) as (script, slots):
        arguments.host_discovery_script, arguments.slots = script, slots
        # The hosts of the start; the launcher itself decides about those that come later.
        present = settings.discovery.find_available_hosts_and_slots()
        arguments.remote_hosts = ",".join(network.filter_local_addresses(present)) or None
        arguments.run_func = command_or_func if callable(command_or_func) else None
        return launched(arguments, environment, command_or_func)


def words_of(command: Union[str, Sequence[str]]) -> List[str]:
    """The words of a command; a text is for the shell."""
    return ["sh", "-c", command] if isinstance(command, str) else list(command)


class CommandFailed(RuntimeError):
    """The job of a command has failed."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def launched(arguments: Any, env: Mapping[str, str], command: Any) -> Any:
    """Runs the function of the arguments on the workers of a job, and returns its results in the order of the ranks;
    without one, runs a command there."""
    function = getattr(arguments, "run_func", None)
    if function is None:
        _run_command(arguments, env, command)
        return None
    from farandole.runner.functions.job import run_function

    if not isinstance(function, functools.partial):
        return run_function(function, (), {}, arguments, env)
    return run_function(function.func, function.args, function.keywords, arguments, env)


def arguments_on_hosts(settings: Any, nics: Optional[Iterable[str]]) -> Any:
    """The launcher's arguments for a job on the hosts of the settings."""
    arguments = _arguments_of(settings, nics)
    if settings.hosts:
        arguments.hosts, arguments.hostfile = settings.hosts, None
    return arguments


def _arguments_of(settings: Any, nics: Optional[Iterable[str]]) -> Any:
    """The launcher's arguments for a job with these settings. Those of ``launch._run`` have its arguments, which say
    more than settings can."""
    arguments = copy.copy(getattr(settings, "arguments", None)) or _HorovodArgs()
    for name in ("num_proc", "ssh_port", "ssh_identity_file", "output_filename", "tcp_flag", "binding_args"):
        setattr(arguments, name, getattr(settings, name))
    arguments.mpi_args = settings.extra_mpi_args
    timeout = settings.start_timeout
    arguments.start_timeout = math.ceil(timeout.remaining()) if hasattr(timeout, "remaining") else timeout
    arguments.verbose = settings.verbose is not None and settings.verbose >= 2
    arguments.prefix_output_with_timestamp = bool(settings.prefix_output_with_timestamp)
    arguments.nics = set(nics) if nics else None
    return arguments


def _placed_arguments_of(settings: Any, nics: Optional[Iterable[str]], server_ip: str) -> Any:
    """The arguments of a job whose workers the caller starts, and whose output it handles."""
    arguments = _arguments_of(settings, nics)
    arguments.output_filename, arguments.caller_address = None, server_ip
    return arguments


def _run_command(arguments: Any, env: Mapping[str, str], command: Union[str, Sequence[str]]) -> None:
    arguments = copy.copy(arguments)
    arguments.command = words_of(command)
    code = program.run_launcher(launch_options.words_of_launch(arguments), dict(env))
    if code != 0:
        raise CommandFailed(
            f"the job of '{command if isinstance(command, str) else shlex.join(command)}' ended with exit code {code}; "
            "the launcher's output above has the cause",
            code,
        )
