"""Runs a short command, and returns its output."""

from __future__ import annotations

import io
from typing import Dict, Optional, Sequence, Tuple, Union

from farandole.runner.common.util import safe_shell_exec


def execute(command: Union[str, Sequence[str]], env: Optional[Dict[str, str]] = None) -> Optional[Tuple[str, int]]:
    """The output of a command, that on stderr included, and its exit code; None if it cannot be run."""
    output = io.StringIO()
    try:
        code = safe_shell_exec.execute(command, env=env, stdout=output, stderr=output)
    except OSError:
        return None
    return output.getvalue(), code
