"""The launcher for Python: ``python -m horovod.runner.launch`` is ``horovodrun``.

Tools replace functions of this module, so each is looked up when it is called.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from typing import Any, Callable, Iterable, Iterator, Optional

from farandole.runner import gloo_run, js_run, launch_options, mpi_run, program
from farandole.runner.arguments import _HorovodArgs
from farandole.runner.common.util import config_parser
from farandole.runner.common.util.settings import Settings
from farandole.runner.common.util.timeout import Timeout
from farandole.runner.util import network
from farandole.runner.util.lsf import LSFUtils

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
    return LSFUtils.using_lsf() and js_run.is_jsrun_installed()


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
        if not LSFUtils.using_lsf():
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
    settings = _Settings(args)
    command = settings.given("command") or []
    env = config_parser.set_env_from_args(dict(os.environ), args)
    if _check_all_hosts_ssh_successful is not _check_of_this_module:
        remote = launch_options.remote_hosts_of(args)
        if remote and not _check_all_hosts_ssh_successful(remote, settings.ssh_port, settings.ssh_identity_file):
            raise RuntimeError(f"could not connect to some hosts via ssh: they are among {', '.join(remote)}")
    with _exit_code_of_the_job():
        return run_controller(
            settings.given("use_gloo") or _needs_agents(settings),
            lambda: gloo_run.gloo_run(settings, settings.nics, env, _address(settings.nics), command),
            settings.given("use_mpi"),
            lambda: mpi_run.mpi_run(settings, settings.nics, env, command),
            settings.given("use_jsrun"),
            lambda: js_run.js_run(settings, settings.nics, env, command),
            settings.verbose,
        )


def _run_elastic(args: Any) -> Any:
    """Launches an elastic job, as ``_run`` does; ``ValueError`` if nothing says which hosts it may use."""
    named = any(getattr(args, name, None) for name in ("hosts", "hostfile", "host_discovery_script", "agents"))
    if not named and not any(name in os.environ for name in _JOB_IDS):
        raise ValueError(
            "an elastic job needs to know its hosts, and none of hosts, hostfile, host_discovery_script and agents is "
            "set; set one of them"
        )
    with _exit_code_of_the_job():
        return gloo_run.launched(args, os.environ, getattr(args, "command", None) or [])


class _Settings(Settings):
    """The settings of a job of fixed size, with the arguments of ``_run`` from which they are."""

    def __init__(self, arguments: Any) -> None:
        self.arguments = arguments
        given = self.given
        start_timeout = given("start_timeout") or launch_options.timeouts()["start_timeout"]
        nics = given("nics")
        super().__init__(
            hosts=launch_options.hosts_of(arguments),
            num_proc=given("num_proc"),
            verbose=2 if given("verbose") else 0,
            ssh_port=given("ssh_port"),
            ssh_identity_file=given("ssh_identity_file"),
            extra_mpi_args=given("mpi_args"),
            tcp_flag=given("tcp_flag"),
            binding_args=given("binding_args"),
            start_timeout=Timeout(start_timeout, "{activity} took longer than {timeout} s"),
            output_filename=given("output_filename"),
            run_func_mode=given("run_func") is not None,
            nics=nics.split(",") if isinstance(nics, str) else nics,
            prefix_output_with_timestamp=bool(given("prefix_output_with_timestamp")),
        )

    def given(self, name: str) -> Any:
        """The argument of this name; None if it was not given."""
        return getattr(self.arguments, name, None)


def _needs_agents(settings: _Settings) -> bool:
    """Whether only agents can launch a job of LSF for which jsrun is the default: nothing tells jsrun the CPUs of each
    rank, or jsrun cannot do what an option asks for."""
    if settings.given("use_mpi") or settings.given("use_jsrun") or not _launches_by_jsrun():
        return False
    knows_cpus = settings.binding_args or os.environ.get("CSM_ALLOCATION_ID")
    has_input = settings.given("stdin") is not None and not settings.run_func_mode
    return not knows_cpus or has_input or bool(settings.given("agents") or settings.given("rendezvous"))


def _address(nics: Optional[Iterable[str]]) -> Optional[str]:
    """The address of this host on one of the interfaces; None where their names are networks, or those of others."""
    try:
        return network.get_driver_ip(nics)
    except RuntimeError:
        return None


@contextlib.contextmanager
def _exit_code_of_the_job() -> Iterator[None]:
    """Ends the process with the exit code of a command that has failed."""
    try:
        yield
    except gloo_run.CommandFailed as failure:
        sys.exit(failure.exit_code)


def _check_all_hosts_ssh_successful(
    host_addresses: Iterable[str],
    ssh_port: Optional[int] = None,
    ssh_identity_file: Optional[str] = None,
    fn_cache: Any = None,
) -> bool:
    """Whether all of these hosts can be reached by ssh; the launcher prints why not.

    ``_run`` calls this function only if it was replaced. The launcher itself finds hosts that cannot be reached, and
    needs one connection to each for that and for the job.

    :param fn_cache: not used: nothing is kept that could become outdated
    """
    arguments, names = _HorovodArgs(), list(host_addresses)
    arguments.num_proc, arguments.hosts = len(names), launch_options.slot_on_each(names)
    arguments.remote_hosts, arguments.use_gloo = ",".join(names), True
    arguments.ssh_port, arguments.ssh_identity_file, arguments.command = ssh_port, ssh_identity_file, ["true"]
    return not names or program.run_launcher(launch_options.words_of(arguments)) == 0


_check_of_this_module = _check_all_hosts_ssh_successful


def run_commandline() -> None:
    """``horovodrun`` with the words of ``sys.argv``."""
    _run(parse_args())


if __name__ == "__main__":
    # The launcher replaces this process, so that signals reach it, and its exit code is that of the process.
    sys.stdout.flush()
    launcher = program.path_of_launcher()
    os.execv(launcher, [launcher, "run", *sys.argv[1:]])
