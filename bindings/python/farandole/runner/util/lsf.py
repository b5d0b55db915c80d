"""Facts about a job of LSF on a cluster with CSM, for tools that choose numbers of workers.

The launcher itself finds the hosts of a job without this module.
"""

from __future__ import annotations

import os
import re
import subprocess
from typing import List, Optional, Sequence

ALLOCATION_QUERY = "/opt/ibm/csm/bin/csm_allocation_query"
HOST_QUERY = "/opt/ibm/csm/bin/csm_node_attributes_query"
_QUERY_S = 60.0


class LSFUtils:
    """Asks LSF and CSM. All compute hosts of a job are alike, so the first one tells for all."""

    @staticmethod
    def using_lsf() -> bool:
        """Whether this process belongs to a job of LSF."""
        return "LSB_JOBID" in os.environ

    @staticmethod
    def get_compute_hosts() -> List[str]:
        """The compute hosts of the job, without the host that launches it."""
        printed = _allocation()
        found = re.search(r"^compute_nodes:[ \t]*\n((?:[ \t]*-[ \t]*\S+[ \t]*(?:\n|$))+)", printed, re.MULTILINE)
        names = [line.strip(" \t-") for line in _value(found, ALLOCATION_QUERY, "compute_nodes").splitlines()]
        return list(dict.fromkeys(names))

    @staticmethod
    def get_num_cores() -> int:
        """The cores of a compute host that jobs may use."""
        printed = _host()
        isolated = _number(ALLOCATION_QUERY, _allocation(), "isolated_cores")
        cores = _number(HOST_QUERY, printed, "discovered_cores")
        return cores - isolated * _number(HOST_QUERY, printed, "discovered_sockets")

    @staticmethod
    def get_num_gpus() -> int:
        """The GPUs of a compute host."""
        return _number(HOST_QUERY, _host(), "discovered_gpus")

    @staticmethod
    def get_num_processes() -> int:
        """A worker for each GPU of the job."""
        return len(LSFUtils.get_compute_hosts()) * LSFUtils.get_num_gpus()

    @staticmethod
    def get_num_threads() -> int:
        """The hardware threads of a core of a compute host."""
        from farandole.runner.common.util import env

        host = LSFUtils.get_compute_hosts()[0]
        shell = [env.KUBEFLOW_MPI_EXEC] if env.is_kubeflow_mpi() else ["ssh", "-o", "BatchMode=yes"]
        return _number("lscpu", _output_of([*shell, host, "LC_ALL=C", "lscpu"]), r"Thread\(s\) per core")


def _allocation() -> str:
    number = os.environ.get("CSM_ALLOCATION_ID")
    if not number:
        raise RuntimeError("CSM_ALLOCATION_ID is not set; call this inside of a job of LSF on a cluster with CSM")
    return _output_of([ALLOCATION_QUERY, "-a", number])


def _host() -> str:
    return _output_of([HOST_QUERY, "-n", LSFUtils.get_compute_hosts()[0]])


def _output_of(command: Sequence[str]) -> str:
    try:
        ran = subprocess.run(
            command, stdin=subprocess.DEVNULL, check=False, capture_output=True, text=True, timeout=_QUERY_S
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise RuntimeError(f"{command[0]} cannot be run: {problem}") from problem
    if ran.returncode != 0:
        raise RuntimeError(f"{command[0]} exited with code {ran.returncode}: {ran.stderr.strip()}")
    return ran.stdout


def _number(program: str, printed: str, key: str) -> int:
    found = re.search(rf"^[ \t]*{key}:[ \t]*(\d+)[ \t]*$", printed, re.MULTILINE)
    return int(_value(found, program, key))


def _value(found: Optional[re.Match[str]], program: str, key: str) -> str:
    if found is None:
        raise RuntimeError(
            f"the output of {program} has no value {key}; give the hosts (-H) and the number of workers (-np) yourself"
        )
    return found.group(1)
