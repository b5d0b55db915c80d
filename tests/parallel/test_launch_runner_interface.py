"""The names below ``horovod.runner`` have the signatures that other tools expect (``runner_interface.tsv``)."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import pytest
from interface_rows import differences, rows_of

TABLE = Path(__file__).with_name("runner_interface.tsv")
NAMES = {
    "launch": ("gloo_built", "mpi_built", "_run", "_run_elastic", "_check_all_hosts_ssh_successful", "run_controller"),
    "mpi_run": (
        *("_get_mpi_implementation", "_get_mpi_implementation_flags", "_LARGE_CLUSTER_THRESHOLD", "os"),
        *("_OMPI_IMPL", "_SMPI_IMPL", "_MPICH_IMPL", "_IMPI_IMPL", "_UNKNOWN_IMPL", "_MISSING_IMPL"),
        *("safe_shell_exec", "tiny_shell_exec"),
    ),
    "js_run": ("js_run", "generate_jsrun_rankfile", "is_jsrun_installed", "safe_shell_exec"),
    "elastic.constants": ("RESET_LIMIT_EXCEEDED_MESSAGE",),
    "elastic.driver": ("DISCOVER_HOSTS_FREQUENCY_SECS", "ELASTIC_TIMEOUT_SECS"),
    "gloo_run": ("_get_min_start_hosts",),
    "common.util.hosts": ("INVALID_SLOT_INFO",),
    "common.util.safe_shell_exec": ("execute",),
    "common.util.tiny_shell_exec": ("execute",),
    "common.util.host_hash": ("_hash",),
    "common.util.config_parser": ("set_env_from_args", "HOROVOD_FUSION_THRESHOLD"),
    "util.lsf": ("LSFUtils",),
    "util.threads": ("in_thread",),
}
"""Names without a row in the table."""


def module_of(name: str) -> Any:
    return importlib.import_module(f"horovod.runner.{name}" if name else "horovod.runner")


MODULES = list(dict.fromkeys(row[0] for row in rows_of(TABLE)))
has_mpi_run = importlib.util.find_spec("farandole.runner.mpi_run") is not None


@pytest.mark.parametrize("name", MODULES)
def test_the_names_of_a_module_have_their_signatures(name: str) -> None:
    if name == "mpi_run" and not has_mpi_run:
        pytest.skip("this tree has no module mpi_run")
    module = module_of(name)
    assert differences(module, TABLE, name) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_module_has_its_other_names(name: str) -> None:
    module = module_of(name)
    assert [each for each in NAMES[name] if not hasattr(module, each)] == []


def test_the_table_has_rows_of_every_kind() -> None:
    assert {row[1] for row in rows_of(TABLE)} == {"class", "function", "method", "property", "staticmethod"}
    assert len(rows_of(TABLE)) == 179
