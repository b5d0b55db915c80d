"""Runs the commands of other tools, which show their output only if they fail."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Union

from bundling import Refused


def run(*words: Union[str, Path]) -> str:
    """The output of a command, which must succeed."""
    command = [str(word) for word in words]
    # Interpreters that are called here must not import from the user's PYTHONPATH, and messages must be in English,
    # because they are parsed.
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    try:
        ran = subprocess.run(
            command, env={**variables, "LC_ALL": "C"}, check=False, capture_output=True, text=True, errors="replace"
        )
    except OSError as problem:
        raise Refused(f"{command[0]} cannot be run: {problem.strerror}") from None
    if ran.returncode != 0:
        raise Refused(f"`{' '.join(command)}` failed with exit code {ran.returncode}:\n{ran.stdout}{ran.stderr}")
    return ran.stdout
