"""The launcher for Python: ``python -m horovod.runner.launch`` is ``horovodrun``.

Tools replace functions of this module, so each is looked up when it is called.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from typing import Any, Callable, Optional

from farandole.runner import launch_options, program

_JOB_IDS = ("LSB_JOBID", "SLURM_JOB_ID", "PBS_JOBID")
"""Variables of schedulers in whose jobs the launcher knows the number of processes."""


def parse_args() -> argparse.Namespace:
    """Parses ``sys.argv`` as ``horovodrun`` does; the attributes have the names of Horovod's.

    Values of the config file are set for options that the command line does not give. Raises ``ValueError`` for numbers
    that are out of range, and ends the process with code 2 for other errors, as argparse does.
    """
    parser = launch_options.make_parser(lambda: print(program.output_of("run", "--help"), end=""))
    arguments = parser.parse_args()
    if arguments.command[:1] == ["--"]:
        del arguments.command[0]
    if arguments.num_proc is None and not arguments.check_build and not any(name in os.environ for name in _JOB_IDS):
        parser.error("the following arguments are required: -np/--num-proc")
    if arguments.config_file:
        lines = program.output_of("settings", "--config-file", arguments.config_file).splitlines()
        launch_options.set_from_file(arguments, dict(line.split("=", 1) for line in lines))
    launch_options.set_defaults(arguments)
    launch_options.check_values(arguments)
    arguments.run_func = None
    arguments.executable = None
    return arguments


def check_build(verbose: bool) -> None:
    """Prints the capabilities of this build."""
    print(program.output_of("check", *(["--verbose"] if verbose else [])), end="", flush=True)


def gloo_built(verbose: bool = False) -> bool:
    """Whether processes can be launched without MPI; always so."""
    return True


def mpi_built(verbose: bool = False) -> bool:
    """Whether MPI is built in."""
    from farandole.common import mpi

    return mpi.is_installed()


def _launches_by_jsrun() -> bool:
    """Whether this is a job of LSF that has jsrun."""
    return "LSB_JOBID" in os.environ and shutil.which("jsrun") is not None


def is_gloo_used(
    use_gloo: Optional[bool] = None, use_mpi: Optional[bool] = None, use_jsrun: Optional[bool] = None
) -> bool:
    """Whether a job with these options is launched without mpirun and jsrun."""
    return bool(use_gloo) or not (use_mpi or use_jsrun or _launches_by_jsrun())


def run_controller(
    use_gloo: Optional[bool],
    gloo_run: Callable[[], Any],
    use_mpi: Optional[bool],
    mpi_run: Callable[[], Any],
    use_jsrun: Optional[bool],
    js_run: Callable[[], Any],
    verbosity: Any,
) -> Any:
    """Calls the function that launches the job as the options say."""
    verbose = verbosity is not None and verbosity >= 2
    if use_gloo:
        if not gloo_built(verbose=verbose):
            raise ValueError("Gloo support has not been built; install Farandole again")
        return gloo_run()
    if use_mpi:
        if not mpi_built(verbose=verbose):
            raise ValueError("MPI support has not been built: install an MPI library and then Farandole again")
        return mpi_run()
    if use_jsrun:
        if not mpi_built(verbose=verbose):
            raise ValueError("MPI support has not been built: install an MPI library and then Farandole again")
        if "LSB_JOBID" not in os.environ:
            raise ValueError("--jsrun needs a job of LSF, and LSB_JOBID is not set; start this inside of one")
        return js_run()
    return js_run() if _launches_by_jsrun() else gloo_run()


def _run(args: Any) -> Any:
    """Launches the command of an object with the attributes of ``parse_args()``, and ends the process with the job's
    exit code if that is not 0. With a function in ``run_func``, returns its results in the order of the ranks."""
    if getattr(args, "check_build", None):
        check_build(bool(args.verbose))
        return None
    from farandole.runner.functions.job import is_elastic_launch

    return _run_elastic(args) if is_elastic_launch(args) else _run_static(args)


def _run_static(args: Any) -> Any:
    """Launches a job of a fixed size, as ``_run`` does."""
    hosts = getattr(args, "hosts", None)
    if hosts and getattr(args, "remote_hosts", None) is None:
        from farandole.runner import gloo_run

        args.remote_hosts = gloo_run.remote_hosts_of(hosts)
    return _launch(args)


def _run_elastic(args: Any) -> Any:
    """Launches an elastic job, as ``_run`` does; ``ValueError`` if the arguments say nothing about its hosts."""
    if not any(getattr(args, name, None) for name in ("hosts", "hostfile", "host_discovery_script", "agents")):
        raise ValueError(
            "an elastic job needs to know its hosts, and none of hosts, hostfile, host_discovery_script and agents is "
            "set; set one of them"
        )
    return _launch(args)


def _launch(args: Any) -> Any:
    if getattr(args, "run_func", None) is not None:
        from farandole.runner.functions.job import run_function

        return run_function(args.run_func, (), {}, args)
    code = program.run_launcher(launch_options.words_of(args))
    if code != 0:
        sys.exit(code)
    return None


def run_commandline() -> None:
    """``horovodrun`` with the words of ``sys.argv``."""
    _run(parse_args())


if __name__ == "__main__":
    # The launcher replaces this process, so that signals reach it, and its exit code is that of the process.
    sys.stdout.flush()
    launcher = program.path_of_launcher()
    os.execv(launcher, [launcher, "run", *sys.argv[1:]])
