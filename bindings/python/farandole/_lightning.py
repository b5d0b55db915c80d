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
from typing import Any, Iterable, List

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
        return _classes_for(package).strategy(**options)

    registry = importlib.import_module(f"{package}.strategies").StrategyRegistry
    for name in NAMES:
        registry.register(name, strategy, description=_DESCRIPTION, override=True)
    _translate_arguments(package)
    _announce_rank()


def _translate_arguments(package: str) -> None:
    """Makes ``Trainer(accelerator="horovod")``, the spelling of Lightning 1, select the strategy on any device, and
    makes the strategy's names select its cluster environment.

    Lightning 2 lets neither select the other, so this wrapper translates the arguments before the connector reads them.
    A version of Lightning without this connector stays unchanged, and rejects the accelerator.
    """
    module = importlib.import_module(f"{package}.trainer.connectors.accelerator_connector")
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
        if str(kwargs.get("strategy")).lower() in NAMES:
            kwargs["plugins"] = _with_environment(package, kwargs.get("plugins"))
        plain(self, *args, **kwargs)

    connector.__init__ = translated


def _with_environment(package: str, plugins: Any) -> List[Any]:
    """The trainer's plugins with the strategy's cluster environment, unless there is one among them already.

    Without any, Lightning looks for the launcher of this process: it initializes MPI if mpi4py is installed, which
    starts a daemon and may abort the process, and it refuses jobs of Slurm that have ``--ntasks``.
    """
    given = [] if plugins is None else [*plugins] if isinstance(plugins, Iterable) else [plugins]
    base = importlib.import_module(f"{package}.plugins.environments").ClusterEnvironment
    if any(isinstance(each, base) for each in given):
        return given
    return [*given, _classes_for(package).environment()]


def _classes_for(package: str) -> Any:
    # By name, like an entry point, because this module must not depend on the package that it registers.
    return importlib.import_module("farandole.lightning.registration").classes_for(package)


def _announce_rank() -> None:
    """Sets the rank for ``rank_zero_only``, because Lightning does not read the variables of our launcher."""
    rank = os.environ.get("HOROVOD_RANK")
    if rank is not None:
        from lightning_utilities.core.rank_zero import rank_zero_only

        rank_zero_only.rank = int(rank)  # type: ignore[attr-defined]
