"""Launches commands by mpirun, for tools that call ``mpi_run``.

The launcher knows the kinds of mpirun and composes the command line (``horovodrun --mpi --print-command``).
"""

from __future__ import annotations

import os
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Union

from farandole.runner import launch_options, program
from farandole.runner.arguments import _HorovodArgs
from farandole.runner.common.util import safe_shell_exec
from farandole.runner.gloo_run import _arguments_of, words_of


def mpi_run(
    settings: Any,
    nics: Optional[Iterable[str]],
    env: Mapping[str, str],
    command: Union[str, Sequence[str]],
    stdout: Any = None,
    stderr: Any = None,
) -> None:
    """Runs a command on the hosts of the settings by mpirun. This process becomes mpirun, unless the settings are for
    a function (``run_func_mode``): then ``RuntimeError`` if mpirun fails.

    :param env: of mpirun; PATH and PYTHONPATH of this process are added if they are missing
    :param command: words, or a text for the shell
    """
    environment = with_search_paths(env)
    arguments = arguments_on_hosts(settings, nics, command)
    arguments.use_mpi = arguments.print_command = True
    line = program.output_of("run", *launch_options.words_of(arguments), environment=environment)
    execute_launch(settings, "mpirun", ["/bin/sh", "-c", line], environment, stdout, stderr)


def arguments_on_hosts(
    settings: Any, nics: Optional[Iterable[str]], command: Union[str, Sequence[str]]
) -> _HorovodArgs:
    """The launcher's arguments for a command on the hosts of the settings."""
    arguments = _arguments_of(settings, nics)
    arguments.hosts = settings.hosts
    arguments.command = words_of(command)
    return arguments


def execute_launch(
    settings: Any, name: str, words: List[str], environment: Dict[str, str], stdout: Any, stderr: Any
) -> None:
    """This process becomes the command that launches the workers, unless the settings are for a function
    (``run_func_mode``): then ``RuntimeError`` if the command fails.

    :param name: of the program that launches, for the error
    """
    if not settings.run_func_mode:
        os.execve(words[0], words, environment)
    code = safe_shell_exec.execute(words, env=environment, stdout=stdout, stderr=stderr)
    if code != 0:
        raise RuntimeError(f"{name} failed with exit code {code}")


def with_search_paths(env: Optional[Mapping[str, str]]) -> Dict[str, str]:
    """A copy of an environment in which PATH and PYTHONPATH, where missing, are those of this process."""
    if env is None:
        return dict(os.environ)
    return {**{name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}, **env}


def _kind(env: Optional[Mapping[str, str]]) -> Optional[str]:
    """The name of the MPI to which mpirun belongs; None if there is no mpirun, or one of an unknown kind."""
    words = ("run", "--mpi", "--print-command", "-np", "1", "-H", "localhost:1", "true")
    try:
        return program.output_of(*words, environment=with_search_paths(env)).splitlines()[0][len("# ") :]
    except ValueError:
        return None


def mpi_available(env: Optional[Mapping[str, str]] = None) -> bool:
    """Whether there is an mpirun of a kind that the launcher knows."""
    return _kind(env) is not None


def is_open_mpi(env: Optional[Mapping[str, str]] = None) -> bool:
    """Whether mpirun belongs to Open MPI."""
    return _kind(env) == "Open MPI"


def is_spectrum_mpi(env: Optional[Mapping[str, str]] = None) -> bool:
    """Whether mpirun belongs to IBM Spectrum MPI."""
    return _kind(env) == "Spectrum MPI"


def is_mpich(env: Optional[Mapping[str, str]] = None) -> bool:
    """Whether mpirun belongs to MPICH."""
    return _kind(env) == "MPICH"


def is_intel_mpi(env: Optional[Mapping[str, str]] = None) -> bool:
    """Whether mpirun belongs to Intel MPI."""
    return _kind(env) == "Intel MPI"
