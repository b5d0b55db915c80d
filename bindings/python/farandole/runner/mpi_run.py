"""Launches commands by mpirun, for tools that call ``mpi_run``.

The launcher knows the implementations of MPI and composes the command line (``horovodrun --mpi --print-command``).
Tools replace functions and constants of this module, so each is looked up when it is used.
"""

from __future__ import annotations

import functools
import os
import shlex
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from farandole.runner import gloo_run, launch_options, program
from farandole.runner.common.util import safe_shell_exec, tiny_shell_exec

_OMPI_IMPL = "OpenMPI"
_SMPI_IMPL = "SpectrumMPI"
_MPICH_IMPL = "MPICH"
_IMPI_IMPL = "IntelMPI"
_UNKNOWN_IMPL = "Unknown"
_MISSING_IMPL = "Missing"
_NAMES = {"Open MPI": _OMPI_IMPL, "Spectrum MPI": _SMPI_IMPL, "MPICH": _MPICH_IMPL, "Intel MPI": _IMPI_IMPL}
"""The implementations by the launcher's names."""
_VERSIONS = {_OMPI_IMPL: "Open MPI", _SMPI_IMPL: "IBM Spectrum MPI", _MPICH_IMPL: "MPICH", _IMPI_IMPL: "Intel(R) MPI"}
"""What ``mpirun --version`` of an implementation prints at least."""
_LARGE_CLUSTER_THRESHOLD = 64
"""From so many hosts on, Open MPI and Spectrum MPI start all of them directly and at once."""


def mpi_run(
    settings: Any,
    nics: Optional[Iterable[str]],
    env: Mapping[str, str],
    command: Union[str, Sequence[str]],
    stdout: Any = None,
    stderr: Any = None,
) -> Any:
    """Runs a command on the hosts of the settings by mpirun. This process becomes mpirun, unless the settings are for
    a function (``run_func_mode``): then ``RuntimeError`` if mpirun fails. Returns the results of a function, which
    ``launch._run`` passes with the settings.

    :param env: of mpirun; PATH and PYTHONPATH of this process are added if they are missing
    :param command: words, or a text for the shell
    """
    environment = with_search_paths(env)
    arguments = gloo_run.arguments_on_hosts(settings, nics)
    arguments.use_mpi, arguments.mpi_large_cluster = True, _LARGE_CLUSTER_THRESHOLD
    flags, binding, implementation = _get_mpi_implementation_flags(settings.tcp_flag, environment)
    if flags is not None:  # else the launcher names the missing program
        arguments.mpi_version = _version_of(implementation, environment)
        binding = [settings.binding_args] if settings.binding_args else binding
        arguments.mpi_flags = " ".join([*(binding or ()), *flags]) or " "
    if getattr(arguments, "run_func", None) is not None:
        return gloo_run.launched(arguments, environment, command)
    return execute_line(settings, "mpirun", arguments, environment, command, stdout, stderr)


def execute_line(
    settings: Any,
    name: str,
    arguments: Any,
    environment: Dict[str, str],
    command: Union[str, Sequence[str]],
    stdout: Any,
    stderr: Any,
) -> None:
    """This process becomes the command line that the launcher prints for these arguments, unless the settings are for a
    function (``run_func_mode``): then ``RuntimeError`` if the line fails.

    :param name: of the program that launches, for the error
    """
    arguments.command, arguments.print_command = gloo_run.words_of(command), True
    line = _line_of(program.output_of("run", *launch_options.words_of(arguments), environment=environment))
    if not settings.run_func_mode:
        os.execve("/bin/sh", ["/bin/sh", "-c", line], environment)
    code = safe_shell_exec.execute(line, env=environment, stdout=stdout, stderr=stderr)
    if code != 0:
        raise RuntimeError(f"{name} failed with exit code {code}")


def _line_of(printed: str) -> str:
    """The command line below the comments of ``--print-command``."""
    while printed.startswith("# "):
        printed = printed.partition("\n")[2]
    return printed.rstrip("\n")


def with_search_paths(env: Optional[Mapping[str, str]]) -> Dict[str, str]:
    """A copy of an environment in which PATH and PYTHONPATH, where missing, are those of this process."""
    if env is None:
        return dict(os.environ)
    return {**{name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}, **env}


class _Description(NamedTuple):
    name: str
    flags: List[str]
    binding: List[str]


class _Implementation(str):
    """The name of an implementation, with what its ``mpirun --version`` has printed."""

    version: str

    def __new__(cls, name: str, version: str) -> _Implementation:
        made = super().__new__(cls, name)
        made.version = version
        return made


def _described(version: str, tcp_flag: bool = False) -> Optional[_Description]:
    """What the launcher knows about the mpirun whose version this is; None: nothing."""
    try:
        return _asked(version, tcp_flag)
    except ValueError:
        return None


@functools.lru_cache(maxsize=16)
def _asked(version: str, tcp_flag: bool) -> _Description:
    words = ["run", "--mpi", "--print-command", f"--mpi-version={version}", "-np", "1", "-H", "localhost:1"]
    printed = program.output_of(*words, *(["--tcp"] if tcp_flag else []), "true").splitlines()
    parts = dict(line[2:].split(":", 1) for line in printed[1:] if line.startswith("# "))
    return _Description(_NAMES[printed[0][2:]], shlex.split(parts["flags"]), shlex.split(parts["binding"]))


def _version(env: Optional[Mapping[str, str]]) -> Optional[str]:
    """What ``mpirun --version`` prints; None if there is no mpirun."""
    ran = tiny_shell_exec.execute("mpirun --version", with_search_paths(env))
    return None if ran is None or ran[1] != 0 else ran[0]


def _version_of(implementation: Optional[str], env: Optional[Mapping[str, str]]) -> Optional[str]:
    """What ``mpirun --version`` prints, if it is one of this implementation; else what this one would print."""
    if isinstance(implementation, _Implementation):
        return implementation.version
    if implementation not in _VERSIONS:
        return None
    # A function that a tool has replaced gives the bare name.
    version = _version(env)
    found = None if version is None else _described(version)
    return version if found is not None and found.name == implementation else _VERSIONS[implementation]


def _get_mpi_implementation(env: Optional[Mapping[str, str]] = None) -> str:
    """The implementation to which mpirun belongs."""
    version = _version(env)
    if version is None:
        return _MISSING_IMPL
    found = _described(version)
    return _UNKNOWN_IMPL if found is None else _Implementation(found.name, version)


def _get_mpi_implementation_flags(
    tcp_flag: Optional[bool], env: Optional[Mapping[str, str]] = None
) -> Tuple[Optional[List[str]], Optional[List[str]], Optional[str]]:
    """The options that mpirun needs for its implementation, those that bind processes to cores, and the
    implementation; None for each where there is no mpirun that the launcher knows."""
    version = _version_of(_get_mpi_implementation(env), env)
    found = None if version is None else _described(version, bool(tcp_flag))
    if version is None or found is None:
        return None, None, None
    return found.flags, found.binding, _Implementation(found.name, version)


def mpi_available(env: Optional[Mapping[str, str]] = None) -> bool:
    """Whether there is an mpirun of a kind that the launcher knows."""
    return _get_mpi_implementation(env) not in (_UNKNOWN_IMPL, _MISSING_IMPL)


def is_open_mpi(env: Optional[Mapping[str, str]] = None) -> bool:
    """Whether mpirun belongs to Open MPI."""
    return _get_mpi_implementation(env) == _OMPI_IMPL


def is_spectrum_mpi(env: Optional[Mapping[str, str]] = None) -> bool:
    """Whether mpirun belongs to IBM Spectrum MPI."""
    return _get_mpi_implementation(env) == _SMPI_IMPL


def is_mpich(env: Optional[Mapping[str, str]] = None) -> bool:
    """Whether mpirun belongs to MPICH."""
    return _get_mpi_implementation(env) == _MPICH_IMPL


def is_intel_mpi(env: Optional[Mapping[str, str]] = None) -> bool:
    """Whether mpirun belongs to Intel MPI."""
    return _get_mpi_implementation(env) == _IMPI_IMPL
