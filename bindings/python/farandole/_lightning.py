"""Registers ``Trainer(strategy="horovod")`` and ``"farandole"`` with Lightning, for any order of imports in a script.

Lightning has a registry of strategies but no entry points for them, so the names must be registered by a call after
Lightning has been imported. ``farandole._imports`` makes that call. The strategy itself is loaded when a trainer asks
for it.
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
    """Registers the strategy's names with one package of Lightning, which has been imported; warns if that fails."""
    # Lightning must stay usable in an environment where Farandole is incompatible with it.
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
        # By name, like an entry point, because this module must not depend on the package that it registers.
        classes = importlib.import_module("farandole.lightning.registration").classes_for(package)
        return classes.strategy(**options)

    registry = importlib.import_module(f"{package}.strategies").StrategyRegistry
    for name in NAMES:
        registry.register(name, strategy, description=_DESCRIPTION, override=True)
    _let_accelerator_mean_strategy(importlib.import_module(f"{package}.trainer.connectors.accelerator_connector"))
    _announce_rank()


def _let_accelerator_mean_strategy(module: ModuleType) -> None:
    """Makes ``Trainer(accelerator="horovod")``, the spelling of Lightning 1, select the strategy on any device.

    Lightning 2 does not let an accelerator choose a strategy, so this wrapper translates the arguments before the
    connector reads them. A version of Lightning without this connector stays unchanged, and rejects the name.
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
    """Sets the rank for ``rank_zero_only``, because Lightning does not read the variables of our launcher."""
    rank = os.environ.get("HOROVOD_RANK")
    if rank is not None:
        from lightning_utilities.core.rank_zero import rank_zero_only

        rank_zero_only.rank = int(rank)  # type: ignore[attr-defined]
