"""Launches commands and functions with the settings objects of Horovod, for tools that call ``gloo_run``."""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Union

from farandole.runner import launch_options, program
from farandole.runner.arguments import _HorovodArgs
from farandole.runner.elastic import discovery as discoveries

DISCOVERY_S = 1.0
"""How often a discovery object is asked."""


def gloo_run(
    settings: Any, nics: Optional[Iterable[str]], env: Mapping[str, str], server_ip: Any, command: Any
) -> None:
    """Runs a command on the hosts of the settings; ``RuntimeError`` if it fails.

    :param command: words, or a text for the shell
    :param server_ip: not used: the launcher chooses its address
    """
    arguments = _arguments_of(settings, nics)
    arguments.hosts = settings.hosts
    _run_command(arguments, env, command)


def gloo_run_elastic(
    settings: Any, env: Mapping[str, str], command_or_func: Any, executable: Optional[str]
) -> Optional[Any]:
    """Runs a command or a function on the hosts that the discovery of the settings finds. Returns the results of a
    function in the order of the ranks; ``RuntimeError`` if the job fails."""
    arguments = _arguments_of(settings, settings.nics)
    arguments.executable = executable
    for name in ("min_num_proc", "max_num_proc", "elastic_timeout", "reset_limit", "cooldown_range"):
        setattr(arguments, name, getattr(settings, name))
    arguments.min_num_proc = settings.min_num_proc or settings.num_proc
    with script_of(settings.discovery) as (script, slots):
        arguments.host_discovery_script, arguments.slots = script, slots
        if not callable(command_or_func):
            _run_command(arguments, env, command_or_func)
            return None
        from farandole.runner.functions.job import run_function

        return run_function(command_or_func, (), {}, arguments, env)


def _arguments_of(settings: Any, nics: Optional[Iterable[str]]) -> _HorovodArgs:
    arguments = _HorovodArgs()
    for name in ("num_proc", "ssh_port", "ssh_identity_file", "output_filename", "tcp_flag", "binding_args"):
        setattr(arguments, name, getattr(settings, name))
    arguments.mpi_args = settings.extra_mpi_args
    timeout = settings.start_timeout
    arguments.start_timeout = math.ceil(timeout.remaining()) if hasattr(timeout, "remaining") else timeout
    arguments.verbose = settings.verbose is not None and settings.verbose >= 2
    arguments.prefix_output_with_timestamp = bool(settings.prefix_output_with_timestamp)
    arguments.nics = set(nics) if nics else None
    return arguments


def _run_command(arguments: _HorovodArgs, env: Mapping[str, str], command: Union[str, Sequence[str]]) -> None:
    arguments.command = ["sh", "-c", command] if isinstance(command, str) else list(command)
    code = program.run_launcher(launch_options.words_of(arguments), dict(env))
    if code != 0:
        raise RuntimeError(
            f"the job of '{command if isinstance(command, str) else shlex.join(command)}' ended with exit code {code}; "
            "the launcher's output above has the cause"
        )


@contextlib.contextmanager
def script_of(discovery: discoveries.HostDiscovery) -> Iterator[Any]:
    """A discovery script that prints the hosts of a discovery object, and the slots of hosts without a number."""
    if isinstance(discovery, discoveries.HostDiscoveryScript):
        yield discovery.script, discovery.default_slots
        return
    with tempfile.TemporaryDirectory(prefix="farandole-discovery-") as folder:
        hosts, script = Path(folder, "hosts"), Path(folder, "discover.sh")
        _write_hosts(hosts, discovery)  # an error of the first time is one of the caller
        script.write_text(f"#!/bin/sh\nexec cat {shlex.quote(str(hosts))}\n")
        script.chmod(0o700)
        ended = threading.Event()
        thread = threading.Thread(target=_refresh, args=(hosts, discovery, ended), daemon=True)
        thread.start()
        try:
            yield str(script), None
        finally:
            ended.set()
            thread.join()


def _write_hosts(path: Path, discovery: discoveries.HostDiscovery) -> None:
    found: Dict[str, int] = dict(discovery.find_available_hosts_and_slots())
    lines: List[str] = [f"{host}:{slots}\n" for host, slots in found.items()]
    fresh = path.with_suffix(".new")
    fresh.write_text("".join(lines))
    os.replace(fresh, path)  # the script reads the old file or the new one


def _refresh(path: Path, discovery: discoveries.HostDiscovery, ended: threading.Event) -> None:
    while not ended.wait(DISCOVERY_S):
        try:
            _write_hosts(path, discovery)
        except Exception as problem:
            warnings.warn(f"the hosts of the job stay as they are, because discovery failed: {problem}", stacklevel=2)
