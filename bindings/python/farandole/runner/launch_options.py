"""The options of ``horovodrun`` as a table, by which ``farandole.runner.launch`` parses and writes command lines.

The launcher itself parses its command line in C++. This table serves tools that call ``parse_args()`` or fill an object
with the same attributes; a test compares its names with the launcher's help.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import os
import warnings
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from farandole.runner.common.util.hosts import parse_host_files, parse_hosts
from farandole.runner.util import network


@dataclass(frozen=True)
class Option:
    """An option, or a pair of flags of which one is the opposite of the other."""

    names: Tuple[str, ...]
    dest: str
    value: Optional[Callable[[str], Any]] = None
    """Converts the value; None: the option is a flag."""
    off: str = ""
    """The flag that stores False, and makes None the default."""
    default: Any = None
    least: Optional[float] = None
    most: Optional[float] = None
    key: str = ""
    """The key of the config file. Such an option takes precedence over the file."""
    negated: bool = False
    """The key's true means that the option is False."""
    together: str = ""
    """Options with the same text here exclude each other."""
    count: int = 1

    @property
    def is_flag(self) -> bool:
        """Whether it takes no value."""
        return self.value is None

    @property
    def written(self) -> str:
        """The name by which it is passed to the launcher."""
        return next((name for name in self.names if name.startswith("--")), self.names[0])


def core_list(text: str) -> Any:
    """A core id as a number, and a comma-separated list of them as text."""
    parts = text.split(",")
    if not all(part.isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"'{text}' is no core id and no comma list of them")
    return text if len(parts) > 1 else int(text)


def log_level(text: str) -> str:
    """One of the levels, in upper case."""
    if text.upper() not in LEVELS:
        raise argparse.ArgumentTypeError(f"'{text}' is none of {', '.join(LEVELS)}")
    return text.upper()


def cooldown(text: str) -> int:
    """A limit of ``--blacklist-cooldown-range``."""
    seconds = int(text)
    if not 1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{seconds} is out of range: 1 to 3600")
    return seconds


LEVELS = ("TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "FATAL")


def _tuned(name: str, value: Callable[[str], Any], key: str, most: Optional[float] = None) -> Option:
    """An option with a number that the config file can give as well."""
    dest = name.replace("-", "_")
    return Option((f"--{name}",), dest, value, least=0, most=most, key=f"{key}.{_last(name, key)}")


def _last(name: str, key: str) -> str:
    """The last part of the key: the option's name without the name of the section."""
    last = name.replace("-", "_")
    return last[len(key) + 1 :] if last.startswith(f"{key}_") else last


def _switch(name: str, key: str, **facts: Any) -> Option:
    return Option((f"--{name}",), name.replace("-", "_"), off=f"--no-{name}", key=key, **facts)


OPTIONS: Tuple[Option, ...] = (
    Option(("-np", "--num-proc"), "num_proc", int),
    Option(("-cb", "--check-build"), "check_build", default=False),
    Option(("--disable-cache",), "disable_cache", default=False),
    Option(("--start-timeout",), "start_timeout", int),
    Option(("--output-filename",), "output_filename", str),
    Option(("--verbose",), "verbose", default=False),
    Option(("--stdin",), "stdin", int),
    Option(("--call-descriptor",), "call_descriptor", int),
    Option(("--caller-address",), "caller_address", str),
    Option(("--session",), "session", default=False),
    Option(("--config-file",), "config_file", str),
    Option(("-p", "--ssh-port"), "ssh_port", int),
    Option(("-i", "--ssh-identity-file"), "ssh_identity_file", str),
    _tuned("fusion-threshold-mb", int, "params"),
    _tuned("cycle-time-ms", float, "params"),
    _tuned("cache-capacity", int, "params"),
    _switch("hierarchical-allreduce", "params.hierarchical_allreduce"),
    _switch("hierarchical-allgather", "params.hierarchical_allgather"),
    _switch("torus-allreduce", "params.torus_allreduce"),
    _switch("autotune", "autotune.enabled"),
    Option(("--autotune-log-file",), "autotune_log_file", str, key="autotune.log_file"),
    _tuned("autotune-warmup-samples", int, "autotune"),
    _tuned("autotune-steps-per-sample", int, "autotune"),
    _tuned("autotune-bayes-opt-max-samples", int, "autotune"),
    _tuned("autotune-gaussian-process-noise", float, "autotune", most=1),
    Option(("--min-np", "--min-num-proc"), "min_num_proc", int),
    Option(("--max-np", "--max-num-proc"), "max_num_proc", int),
    Option(("--slots-per-host", "--slots"), "slots", int),
    Option(("--elastic-timeout",), "elastic_timeout", int),
    Option(("--reset-limit",), "reset_limit", int),
    Option(("--blacklist-cooldown-range",), "cooldown_range", cooldown, count=2),
    Option(("--journal",), "journal", str),
    Option(("--rendezvous",), "rendezvous", str),
    Option(("--timeline-filename",), "timeline_filename", str, key="timeline.filename"),
    _switch("timeline-mark-cycles", "timeline.mark_cycles"),
    Option(("--no-stall-check",), "no_stall_check", off="--stall-check", key="stall_check.enabled", negated=True),
    _tuned("stall-check-warning-time-seconds", int, "stall_check"),
    _tuned("stall-check-shutdown-time-seconds", int, "stall_check"),
    _switch("mpi-threads-disable", "library_options.mpi_threads_disable"),
    Option(("--mpi-args",), "mpi_args", str),
    Option(("--tcp",), "tcp_flag", default=False),
    Option(("--binding-args",), "binding_args", str),
    _tuned("num-nccl-streams", int, "library_options"),
    Option(("--thread-affinity",), "thread_affinity", core_list, key="library_options.thread_affinity"),
    _tuned("gloo-timeout-seconds", int, "library_options"),
    _switch("set-omp-num-threads", "library_options.set_omp_num_threads"),
    Option(("--log-level",), "log_level", log_level, key="logging.level"),
    Option(
        ("--log-with-timestamp",), "log_with_timestamp", off="--log-without-timestamp", key="logging.with_timestamp"
    ),
    Option(("-prefix-timestamp", "--prefix-output-with-timestamp"), "prefix_output_with_timestamp", default=False),
    Option(("-H", "--hosts"), "hosts", str, together="hosts"),
    Option(("--remote-hosts",), "remote_hosts", str),
    Option(("--agents",), "agents", str, together="hosts"),
    Option(("--agent-port",), "agent_port", int),
    Option(("-hostfile", "--hostfile"), "hostfile", str, together="hosts"),
    Option(("--host-discovery-script",), "host_discovery_script", str, together="hosts"),
    Option(("--gloo",), "use_gloo", default=False, together="controller"),
    Option(("--mpi",), "use_mpi", default=False, together="controller"),
    Option(("--jsrun",), "use_jsrun", default=False, together="controller"),
    Option(("--print-command",), "print_command", default=False),
    Option(("--mpi-version",), "mpi_version", str),
    Option(("--mpi-flags",), "mpi_flags", str),
    Option(("--mpi-large-cluster",), "mpi_large_cluster", int),
    Option(("--print-rank-file",), "print_rank_file", int),
)

DEPRECATED_FLAGS = {
    "--log-hide-timestamp": ("--log-without-timestamp", False),
    "--no-log-hide-timestamp": ("--log-with-timestamp", True),
}


class _Interfaces(argparse.Action):
    """Collects the names of ``--network-interfaces`` and ``--network-interface`` in one set."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Optional[str] = None) -> None:
        if option_string == "--network-interface" and "," in values:
            warnings.warn(
                "--network-interface with a list is deprecated; use --network-interfaces",
                DeprecationWarning,
                stacklevel=2,
            )
        found = set(getattr(namespace, self.dest) or ())
        setattr(namespace, self.dest, found | {name for name in values.split(",") if name})


class _DeprecatedFlag(argparse.Action):
    """A flag with another name, which the warning gives."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Optional[str] = None) -> None:
        assert option_string is not None
        other, value = DEPRECATED_FLAGS[option_string]
        warnings.warn(f"{option_string} is deprecated; use {other}", DeprecationWarning, stacklevel=2)
        setattr(namespace, self.dest, value)


class _Version(argparse.Action):
    """Prints the version of the Horovod interface and nothing else."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Optional[str] = None) -> None:
        import horovod

        print(horovod.__version__)
        parser.exit()


def make_parser(print_help: Callable[[], None]) -> argparse.ArgumentParser:
    """A parser of ``horovodrun``'s command line. ``print_help`` prints the launcher's own help."""

    class Help(argparse.Action):
        """Prints the help."""

        def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Optional[str] = None) -> None:
            print_help()
            parser.exit()

    parser = argparse.ArgumentParser(prog="horovodrun", add_help=False, usage="horovodrun -np N [options] command ...")
    parser.add_argument("-h", "--help", action=Help, nargs=0, dest=argparse.SUPPRESS)
    parser.add_argument("-v", "--version", action=_Version, nargs=0, dest=argparse.SUPPRESS)
    groups: Dict[str, Any] = {}
    for option in OPTIONS:
        exclusive = option.together or (option.dest if option.off else "")
        place = groups.setdefault(exclusive, parser.add_mutually_exclusive_group()) if exclusive else parser
        if option.value is not None:
            place.add_argument(
                *option.names, dest=option.dest, type=option.value, nargs=option.count if option.count > 1 else None
            )
            continue
        place.add_argument(*option.names, dest=option.dest, action="store_true", default=option.default)
        if option.off:
            place.add_argument(option.off, dest=option.dest, action="store_false", default=option.default)
    for name in DEPRECATED_FLAGS:
        parser.add_argument(name, dest="log_with_timestamp", action=_DeprecatedFlag, nargs=0)
    parser.add_argument("--network-interfaces", "--network-interface", dest="nics", action=_Interfaces)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    return parser


def set_from_file(namespace: Any, values: Dict[str, str]) -> None:
    """Sets the options that the command line left out to the values of a config file, which the launcher has read and
    checked."""
    for option in OPTIONS:
        text = values.get(option.key)
        if text is None or getattr(namespace, option.dest) is not None:
            continue
        try:
            value: Any = (text == "1") != option.negated if option.value is None else option.value(text)
        except (ValueError, argparse.ArgumentTypeError) as problem:
            raise ValueError(
                f"config file {namespace.config_file}: {option.key} = '{text}' is wrong for {option.written}: {problem}"
            ) from None
        setattr(namespace, option.dest, value)
    controller = values.get("controller", "")
    if not controller or namespace.use_gloo or namespace.use_mpi:
        return
    namespace.use_gloo, namespace.use_mpi = controller.lower() == "gloo", controller.lower() == "mpi"


def timeouts() -> Dict[str, int]:
    """The timeouts that apply where none are given: those of the variables, or the defaults."""
    return {
        "start_timeout": int(os.environ.get("HOROVOD_START_TIMEOUT") or 30),
        "elastic_timeout": int(os.environ.get("HOROVOD_ELASTIC_TIMEOUT") or 600),
    }


def set_defaults(namespace: Any) -> None:
    """Sets the timeouts that were not given."""
    for dest, seconds in timeouts().items():
        if getattr(namespace, dest) is None:
            setattr(namespace, dest, seconds)


def check_values(namespace: Any) -> None:
    """``ValueError`` for a number that is out of range."""
    for option in OPTIONS:
        value = getattr(namespace, option.dest)
        if option.least is None or value is None:
            continue
        if value < option.least or (option.most is not None and value > option.most):
            limit = f"at least {option.least:g}" if option.most is None else f"from {option.least:g} to {option.most:g}"
            raise ValueError(f"{option.written} {value} is out of range: it must be {limit}")


def hosts_of(arguments: Any) -> Optional[str]:
    """The fixed hosts of a job as "name:slots,name:slots"; None where others name them, or the launcher will refuse
    them."""
    hosts, hostfile = getattr(arguments, "hosts", None), getattr(arguments, "hostfile", None)
    if hosts or not hostfile:
        return hosts
    with contextlib.suppress(ValueError, OSError):
        return parse_host_files(hostfile)
    return None


def slot_on_each(names: Iterable[str]) -> str:
    """One slot on each host, as the text of ``hosts``."""
    return ",".join(f"[{name}]:1" if ":" in name else f"{name}:1" for name in names)


def remote_hosts_of(arguments: Any) -> List[str]:
    """The hosts of a job that are reached by ssh: those that ``remote_hosts`` names, or those of its fixed hosts that
    ``network.filter_local_addresses`` returns, which is looked up at each call."""
    named = getattr(arguments, "remote_hosts", None)
    if named:
        return str(named).split(",")
    with contextlib.suppress(ValueError):  # the launcher refuses these hosts
        return network.filter_local_addresses(each.hostname for each in parse_hosts(hosts_of(arguments) or ""))
    return []


def words_of_launch(arguments: Any) -> List[str]:
    """The command line of a job whose workers the launcher starts by itself on its hosts."""
    arguments = copy.copy(arguments)
    if not any(getattr(arguments, name, None) for name in ("use_mpi", "use_jsrun")):
        arguments.remote_hosts = ",".join(remote_hosts_of(arguments)) or None
    return words_of(arguments)


def words_of(arguments: Any) -> List[str]:
    """The command line of ``horovodrun`` that has these attributes; those that are missing or None are left out."""
    words: List[str] = []
    defaults = timeouts()
    for option in OPTIONS:
        value = getattr(arguments, option.dest, None)
        if value is None or value == (option.default if option.is_flag else defaults.get(option.dest)):
            continue
        if option.is_flag:
            words.append(option.written if value else option.off)
        elif option.count > 1:
            words += [option.written, *(str(each) for each in value)]
        else:
            words.append(f"{option.written}={value}")
    interfaces = getattr(arguments, "nics", None)
    if interfaces:
        words.append(
            "--network-interfaces=" + (interfaces if isinstance(interfaces, str) else ",".join(sorted(interfaces)))
        )
    command: Sequence[str] = getattr(arguments, "command", None) or ()
    return [*words, "--", *command] if command else words
