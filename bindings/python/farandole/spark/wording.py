"""Messages of the launcher, which name its options, with the names of the arguments of ``horovod.spark``."""

from __future__ import annotations

import re

_ARGUMENTS = {
    "-np": "num_proc",
    "--min-np": "min_num_proc",
    "--max-np": "max_num_proc",
    "--start-timeout": "start_timeout",
    "--elastic-timeout": "elastic_timeout",
    "--reset-limit": "reset_limit",
}
_OTHERS = {
    "--output-filename keeps a copy of each process's output": "pass text streams as stdout and stderr to keep it",
    ", or let --set-omp-num-threads do it": " in env",
    " (--blacklist-cooldown-range lets hosts come back)": "",
    "(--blacklist-cooldown-range)": "(each does within a minute)",
    ", or find hosts with --host-discovery-script": ", or give the application more executors",
}
"""Advice that names an option without an argument, and advice for users of Spark."""
_OPTION = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, _ARGUMENTS))})(?![\w-])")


def with_arguments(line: str) -> str:
    """A line of the launcher with the names of arguments in place of options."""
    if line.startswith("    "):  # the last output of a worker
        return line
    for advice, other in _OTHERS.items():
        line = line.replace(advice, other)
    return _OPTION.sub(lambda found: _ARGUMENTS[found[0]], line)
