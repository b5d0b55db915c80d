"""Lightning knows ``Trainer(strategy="horovod")`` and ``"farandole"``, whatever a script imports, and in which order.

Lightning has a registry of strategies, but no entry points for them: somebody must call the registry once Lightning has
been imported. ``farandole._imports`` does. The strategy itself is loaded when a trainer asks for it.
"""

from __future__ import annotations

import functools
import importlib
import os
import warnings
from types import ModuleType
from typing import Any

NAMES = ("farandole", "horovod")
_DESCRIPTION = "Data parallel training over Farandole, in processes that horovodrun has started"


def register_or_warn(package: str) -> None:
    """Tells one package of Lightning, which has been imported, of the strategy's names."""
    # Lightning must stay usable in an environment where Farandole does not fit to it.
    try:
        _register(package)
    except Exception as problem:
        warnings.warn(
            f'Trainer(strategy="horovod") is not available: the registration with {package} failed with '
            f"{type(problem).__name__}: {problem}",
            stacklevel=2,
        )


def _register(package: str) -> None:
    def strategy(**options: Any) -> Any:
        from farandole.lightning.registration import classes_for

        return classes_for(package).strategy(**options)

    registry = importlib.import_module(f"{package}.strategies").StrategyRegistry
    for name in NAMES:
        registry.register(name, strategy, description=_DESCRIPTION, override=True)
    _let_accelerator_mean_strategy(importlib.import_module(f"{package}.trainer.connectors.accelerator_connector"))
    _announce_rank()


def _let_accelerator_mean_strategy(module: ModuleType) -> None:
    """``Trainer(accelerator="horovod")``, of Lightning 1, means the strategy, on whatever device there is.

    Lightning 2 asks no accelerator which strategy it wants, so its connector is told before it looks. A Lightning whose
    connector is another is left alone: it refuses the name then.
    """
    connector = getattr(module, "_AcceleratorConnector", None)
    if connector is None or hasattr(connector.__init__, "__wrapped__"):
        return
    plain = connector.__init__

    @functools.wraps(plain)
    def translated(self: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("accelerator") in NAMES:
            kwargs["accelerator"] = "auto"
            if kwargs.get("strategy", "auto") == "auto":
                kwargs["strategy"] = NAMES[0]
        plain(self, *args, **kwargs)

    connector.__init__ = translated


def _announce_rank() -> None:
    """What rank zero alone does, others leave from now on; Lightning's own variables are not those of our launcher."""
    rank = os.environ.get("HOROVOD_RANK")
    if rank is not None:
        from lightning_utilities.core.rank_zero import rank_zero_only

        rank_zero_only.rank = int(rank)  # type: ignore[attr-defined]
