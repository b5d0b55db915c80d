"""Runs Farandole's jobs on a Ray cluster, where each worker is a Ray actor: ``horovod.ray``.

Importing this package loads Ray, but no framework and not the native library.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, List

from farandole.common.requirement import require

require("farandole.ray", "ray", "Ray", (2, 5))

from farandole.ray.runner import RayExecutor  # noqa: E402  (after the check, whose error gives the remedy)
from farandole.ray.worker import BaseHorovodWorker  # noqa: E402

if TYPE_CHECKING:
    from farandole.ray.elastic import ElasticRayExecutor as ElasticRayExecutor

__all__ = ["BaseHorovodWorker", "ElasticRayExecutor", "RayExecutor"]


def __dir__() -> List[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """``ElasticRayExecutor``, whose module loads the native library."""
    if name == "ElasticRayExecutor":
        return importlib.import_module("farandole.ray.elastic").ElasticRayExecutor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
