"""The packages that Lightning comes in, and their versions."""

from __future__ import annotations

from typing import Any, List, Optional

from farandole._imports import LIGHTNING
from farandole.common.requirement import require

OLDEST = (2, 2, 0)


def require_lightning() -> None:
    """``RuntimeError`` that says what to install, unless one of the packages is installed and new enough."""
    problems: List[str] = []
    for package in LIGHTNING:
        try:
            require("horovod.spark.lightning", package.partition(".")[0], "Lightning", OLDEST)
            return
        except ImportError as problem:
            problems.append(str(problem))
    raise RuntimeError("; and ".join(problems))


def package_of(module: Any) -> Optional[str]:
    """The package of Lightning from which a module is derived; None for a plain module of PyTorch."""
    for each in type(module).__mro__:
        if each.__name__ == "LightningModule":
            for package in LIGHTNING:
                if each.__module__.startswith(f"{package}."):
                    return package
    return None


def package_in_use() -> str:
    """The package of Lightning that this process uses: one that it has imported, otherwise one that is installed."""
    from farandole.lightning.registration import base_callback

    package: str = base_callback().__module__.partition(".callbacks")[0]
    return package
