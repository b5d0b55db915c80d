"""The resources that Spark has given to the task in which a worker runs."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping

RESOURCES_VARIABLE = "FARANDOLE_SPARK_RESOURCES"
"""In the environment of a worker: the addresses of each kind of resource, as JSON."""
_LOCAL_RANK_VARIABLE = "HOROVOD_SPARK_USE_LOCAL_RANK_GPU_INDEX"


class TaskInfo:
    """The resources of this process's task."""

    def __init__(self) -> None:
        self.resources: Dict[str, List[str]] = json.loads(os.environ.get(RESOURCES_VARIABLE) or "{}")
        """Addresses by the kind of resource, as in {"gpu": ["0", "1"]}."""


_info = TaskInfo()


def set_resources(resources: Mapping[str, Any]) -> None:
    """Replaces the resources of this process.

    :param resources: by the kind of resource: lists of addresses, or ``pyspark.resource.ResourceInformation``
    """
    _info.resources = {
        kind: [str(each) for each in getattr(given, "addresses", given)] for kind, given in resources.items()
    }


def get_available_devices() -> List[str]:
    """The addresses of the GPUs that Spark has assigned to this worker's task; empty if it has assigned none.

    With HOROVOD_SPARK_USE_LOCAL_RANK_GPU_INDEX=1, for clusters that do not assign GPUs: the worker's local rank.
    """
    if os.environ.get(_LOCAL_RANK_VARIABLE, "0") not in ("", "0"):
        from farandole.runner import worker

        local_rank = worker.place()["local_rank"]
        if local_rank is None:
            raise RuntimeError(
                f"{_LOCAL_RANK_VARIABLE} is set, but this process is no worker of a job, so it has no local rank"
            )
        return [str(local_rank)]
    return list(_info.resources.get("gpu", []))
