"""Farandole for Lightning. Scripts need no import of it for

    Trainer(strategy="farandole")      # or "horovod", or accelerator="horovod" as the manual has it

in processes that ``horovodrun`` has started: ``farandole._lightning`` makes the names known. This package has the
strategy's class, for options, and the state of elastic training. Both packages that Lightning comes in are served,
``lightning`` and ``pytorch_lightning``.
"""

from __future__ import annotations

from typing import Any, List

from farandole.common.util import check_extension
from farandole.lightning.registration import classes_for, require_lightning

check_extension("farandole.lightning", "", __file__, "_native")
require_lightning()

from farandole.lightning.elastic import LightningState  # noqa: E402  (after the check, whose error gives the reason)

__all__ = ["FarandoleStrategy", "LightningState", "classes_for"]


def __dir__() -> List[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """``FarandoleStrategy`` of the package that is in use, for options: ``FarandoleStrategy(compression=…)``."""
    if name == "FarandoleStrategy":
        return classes_for().strategy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
