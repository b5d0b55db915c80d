"""Launches commands by jsrun in a job of LSF, for tools that call ``js_run``.

The launcher composes the command line and the rank file. Tools replace functions of this module and of ``LSFUtils``, so
each is looked up when it is called.
"""

from __future__ import annotations

import shlex
import shutil
from typing import Any, Iterable, Mapping, Optional, Sequence, Union

from farandole.runner import gloo_run, launch_options, program
from farandole.runner.arguments import _HorovodArgs
from farandole.runner.common.util import safe_shell_exec as safe_shell_exec
from farandole.runner.mpi_run import execute_line, with_search_paths
from farandole.runner.util.lsf import LSFUtils


def is_jsrun_installed() -> bool:
    """Whether jsrun is on PATH."""
    return shutil.which("jsrun") is not None


def generate_jsrun_rankfile(settings: Any, path: Optional[str] = None) -> str:
    """Writes a file that gives each rank CPUs of its own, and returns its path.

    :param settings: whose hosts and number of processes are those of the job; None: all of a job of LSF
    :param path: of the file; by default, it is a temporary one that is removed when this process has ended
    """
    arguments = _HorovodArgs()
    arguments.hosts = settings.hosts or _hosts_of_job()
    arguments.num_proc = settings.num_proc or LSFUtils.get_num_processes()
    arguments.print_rank_file = LSFUtils.get_num_cores() * LSFUtils.get_num_threads()
    arguments.command = ["true"]
    written = program.output_of("run", *launch_options.words_of(arguments)).rstrip("\n")
    return written if path is None else shutil.copyfile(written, path)


def _hosts_of_job() -> str:
    slots = LSFUtils.get_num_gpus()
    return ",".join(f"{host}:{slots}" for host in LSFUtils.get_compute_hosts())


def js_run(
    settings: Any,
    nics: Optional[Iterable[str]],
    env: Mapping[str, str],
    command: Union[str, Sequence[str]],
    stdout: Any = None,
    stderr: Any = None,
) -> Any:
    """Runs a command on the hosts of the settings by jsrun. This process becomes jsrun, unless the settings are for a
    function (``run_func_mode``): then ``RuntimeError`` if jsrun fails. Returns the results of a function, which
    ``launch._run`` passes with the settings.

    :param env: of jsrun; PATH and PYTHONPATH of this process are added if they are missing
    :param command: words, or a text for the shell
    """
    if not is_jsrun_installed():
        raise RuntimeError("jsrun is not on PATH; load the module of your cluster that has it, or launch by --gloo")
    environment = with_search_paths(env)
    arguments = gloo_run.arguments_on_hosts(settings, nics)
    arguments.use_jsrun = True
    if not arguments.binding_args:
        arguments.binding_args = f"--erf_input {shlex.quote(generate_jsrun_rankfile(settings))}"
    if getattr(arguments, "run_func", None) is not None:
        return gloo_run.launched(arguments, environment, command)
    return execute_line(settings, "jsrun", arguments, environment, command, stdout, stderr)
