"""Farandole for Lightning: ``import farandole.lightning``, before or after Lightning, is all that it takes for

    Trainer(strategy="farandole")      # or "horovod", or accelerator="horovod" as the manual has it

in processes that ``horovodrun`` has started. Both packages that Lightning comes in are served, ``lightning`` and
``pytorch_lightning``.
"""

from __future__ import annotations

from typing import Any

from farandole.common.util import check_extension
from farandole.lightning.registration import PACKAGES, classes_for, serve

check_extension("farandole.lightning", "", __file__, "_native")
serve()

from farandole.lightning.elastic import LightningState  # noqa: E402  (after the check, whose error gives the reason)

__all__ = ["FarandoleStrategy", "LightningState", "classes_for"]


def __getattr__(name: str) -> Any:
    """``FarandoleStrategy`` of the package that is in use, for options: ``FarandoleStrategy(compression=…)``."""
    if name == "FarandoleStrategy":
        return classes_for().strategy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
