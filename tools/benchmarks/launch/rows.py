"""The rows of `tools/bench launch`, by the name that `--only` takes."""

from __future__ import annotations

from typing import Mapping

from benchmarks.launch import function_rows, local_rows, remote_rows
from benchmarks.launch.measurement import RowMaker

ROWS: Mapping[str, RowMaker] = {
    "true-4": local_rows.true_on_4,
    "true-64": local_rows.true_on_64,
    "init": local_rows.python_that_initialises,
    "ssh": remote_rows.true_by_ssh,
    "simulated": local_rows.simulated_hosts,
    "hosts": remote_rows.many_hosts,
    "output": remote_rows.printed_output,
    "delay": remote_rows.delayed_lines,
    "function": function_rows.function_against_script,
    "session": function_rows.empty_call,
    "agent-kill": remote_rows.killed_agent,
}
