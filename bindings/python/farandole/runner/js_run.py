"""Launches commands by jsrun in a job of LSF, for tools that call ``js_run``. The launcher does it (``--jsrun``)."""

from __future__ import annotations

import shutil
from typing import Any, Iterable, Mapping, Optional, Sequence, Union

from farandole.runner import launch_options, program
from farandole.runner.mpi_run import arguments_on_hosts, execute_launch, with_search_paths


def is_jsrun_installed() -> bool:
    """Whether jsrun is on PATH."""
    return shutil.which("jsrun") is not None


def js_run(
    settings: Any,
    nics: Optional[Iterable[str]],
    env: Mapping[str, str],
    command: Union[str, Sequence[str]],
    stdout: Any = None,
    stderr: Any = None,
) -> None:
    """Runs a command on the hosts of the settings by jsrun. This process becomes jsrun, unless the settings are for a
    function (``run_func_mode``): then ``RuntimeError`` if jsrun fails.

    :param env: of jsrun; PATH and PYTHONPATH of this process are added if they are missing
    :param command: words, or a text for the shell
    """
    arguments = arguments_on_hosts(settings, nics, command)
    arguments.use_jsrun = True
    words = [program.path_of_launcher(), "run", *launch_options.words_of(arguments)]
    execute_launch(settings, "jsrun", words, with_search_paths(env), stdout, stderr)
