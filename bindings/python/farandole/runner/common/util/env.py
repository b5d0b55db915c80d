"""The environment of workers."""

from __future__ import annotations

import os
import re
from typing import Tuple

from farandole.runner.common.util import secret

LOCAL_NAMES = ("BASH_FUNC_.*", "OLDPWD", ".*CUDA_VISIBLE_DEVICES", secret.HOROVOD_SECRET_KEY)
"""Patterns of the variables that are not forwarded to other hosts."""
KUBEFLOW_MPI_EXEC = "/etc/mpi/kubexec.sh"
_PLACES = (
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


def is_exportable(v: str) -> bool:
    """Whether the variable of this name is forwarded to other hosts."""
    return not any(re.fullmatch(pattern, v) for pattern in LOCAL_NAMES)


def get_env_rank_and_size() -> Tuple[int, int]:
    """The rank and the size of the job that a launcher has put into the environment; 0 and 1 if none has."""
    for rank, size in _PLACES:
        if rank in os.environ:
            try:
                return int(os.environ[rank]), int(os.environ[size])
            except (KeyError, ValueError):
                raise ValueError(
                    f"{rank}='{os.environ[rank]}' and {size}='{os.environ.get(size, '')}' are no rank and size; set "
                    "both to numbers, or neither"
                ) from None
    return 0, 1


def is_kubeflow_mpi() -> bool:
    """Whether this process runs under the MPI operator of Kubeflow."""
    return os.environ.get("OMPI_MCA_plm_rsh_agent") == KUBEFLOW_MPI_EXEC  # noqa: SIM112 - spelt so by Open MPI
