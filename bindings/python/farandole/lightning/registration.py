"""The strategy's classes, made of the base classes of whichever of Lightning's packages is in use.
``farandole._lightning`` makes the strategy's names known to Lightning."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from typing import Any, NamedTuple, Optional

from farandole._imports import LIGHTNING
from farandole.common.util import is_version_greater_equal_than


class Classes(NamedTuple):
    """The classes made for one of Lightning's packages, derived from its base classes."""

    strategy: Any
    environment: Any


def require_lightning() -> None:
    """``ImportError`` where none of the packages is installed."""
    if not _installed():
        raise ImportError("farandole.lightning needs Lightning: pip install lightning (or pytorch-lightning)")


@functools.cache
def classes_for(package: Optional[str] = None) -> Classes:
    """The classes for ``lightning.pytorch`` or ``pytorch_lightning``; without a name, for the one in use."""
    if package is None:
        return classes_for(_in_use())
    from farandole.lightning.environment import Environment
    from farandole.lightning.strategy import Launcher, Strategy

    version = importlib.import_module(package.partition(".")[0]).__version__
    if not is_version_greater_equal_than(version, "2.2.0"):  # before, each rank would train on all samples
        raise ImportError(
            f"farandole.lightning needs Lightning 2.2.0 or later, and {version} is installed: "
            "pip install lightning --upgrade"
        )
    plugins = importlib.import_module(f"{package}.plugins.environments")
    strategies = importlib.import_module(f"{package}.strategies")
    launchers = importlib.import_module(f"{package}.strategies.launchers.launcher")
    here = {"__module__": __name__}
    environment = type("FarandoleEnvironment", (Environment, plugins.ClusterEnvironment), dict(here))
    launcher = type("FarandoleLauncher", (Launcher, launchers._Launcher), dict(here))
    made = {**here, "environment_class": environment, "launcher_class": launcher}
    return Classes(type("FarandoleStrategy", (Strategy, strategies.ParallelStrategy), made), environment)


def base_callback() -> Any:
    """``Callback`` of the package that is in use."""
    return importlib.import_module(f"{_in_use()}.callbacks").Callback


def _installed() -> list[str]:
    return [each for each in LIGHTNING if importlib.util.find_spec(each.partition(".")[0]) is not None]


def _in_use() -> str:
    imported = [each for each in LIGHTNING if each in sys.modules]
    return [*imported, *_installed()][0]
