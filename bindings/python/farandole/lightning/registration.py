"""Makes the strategy known to Lightning by its names.

Lightning has a registry of strategies, but no entry points for them: somebody must call it, once its package has been
imported. Whatever is imported first, ``serve`` has that done; it imports no Lightning itself.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any, Callable, NamedTuple, Optional, Sequence

PACKAGES = ("lightning.pytorch", "pytorch_lightning")
NAMES = ("farandole", "horovod")
_DESCRIPTION = "Data parallel training over Farandole, in processes that horovodrun has started"


class Classes(NamedTuple):
    """What is made for one of Lightning's packages, of its base classes."""

    strategy: Any
    environment: Any


def serve() -> None:
    """Registers the strategy with each package of Lightning: now, or when it is imported.

    :raises ImportError: where none is installed
    """
    installed = [each for each in PACKAGES if importlib.util.find_spec(each.partition(".")[0]) is not None]
    if not installed:
        raise ImportError("farandole.lightning needs Lightning: pip install lightning (or pytorch-lightning)")
    for package in installed:
        if package in sys.modules:
            register(package)
        else:
            _WhenImported.watch(package, register)
    _announce_rank()


def _announce_rank() -> None:
    """What rank zero alone does, others leave from now on; Lightning's own variables are not those of our launcher."""
    rank = os.environ.get("HOROVOD_RANK")
    if rank is None:
        return
    from lightning_utilities.core.rank_zero import rank_zero_only

    rank_zero_only.rank = int(rank)  # type: ignore[attr-defined]


@functools.cache
def classes_for(package: Optional[str] = None) -> Classes:
    """The classes for ``lightning.pytorch`` or ``pytorch_lightning``; without a name, for the one in use."""
    if package is None:
        return classes_for(_in_use())
    from farandole.lightning.environment import Environment
    from farandole.lightning.strategy import Launcher, Strategy

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


def _in_use() -> str:
    imported = [each for each in PACKAGES if each in sys.modules]
    installed = [each for each in PACKAGES if importlib.util.find_spec(each.partition(".")[0]) is not None]
    return [*imported, *installed][0]


def register(package: str) -> None:
    """Tells one package of the strategy's names."""
    registry = importlib.import_module(f"{package}.strategies").StrategyRegistry
    for name in NAMES:
        registry.register(name, classes_for(package).strategy, description=_DESCRIPTION, override=True)
    _let_accelerator_mean_strategy(importlib.import_module(f"{package}.trainer.connectors.accelerator_connector"))


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


class _WhenImported(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Calls a function with a module's name once it has been imported, and goes."""

    def __init__(self, name: str, then: Callable[[str], None]) -> None:
        self._name = name
        self._then = then
        self._loader: Any = None

    @classmethod
    def watch(cls, name: str, then: Callable[[str], None]) -> None:
        """Waits for the import of ``name``; once, however often it is asked."""
        if not any(isinstance(each, cls) and each._name == name for each in sys.meta_path):
            sys.meta_path.insert(0, cls(name, then))

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """The spec that others find for this one name, with ourselves as its loader."""
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            self._loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[ModuleType]:
        """As the real loader does it."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """As the real loader does it; then the function."""
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._then(self._name)
