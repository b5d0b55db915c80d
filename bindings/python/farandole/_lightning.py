"""Lightning knows ``Trainer(strategy="horovod")`` and ``"farandole"``, whatever a script imports, and in which order.

Lightning has a registry of strategies, but no entry points for them: somebody must call the registry once Lightning has
been imported. ``import farandole`` has that done. For scripts that import nothing of Farandole, the file
``farandole_lightning.pth`` beside the package imports it when Python starts. So this module imports nothing until
Lightning is imported, and the strategy is loaded when a trainer asks for it.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, Callable, Optional, Sequence

PACKAGES = ("lightning.pytorch", "pytorch_lightning")
"""The two packages that Lightning comes in."""
NAMES = ("farandole", "horovod")
_DESCRIPTION = "Data parallel training over Farandole, in processes that horovodrun has started"


def serve() -> None:
    """Registers the strategy with each package of Lightning: now, or when it is imported."""
    for package in PACKAGES:
        if package in sys.modules:
            _register_or_warn(package)
        else:
            ImportHook.install(package, _register_or_warn)


def _register(package: str) -> None:
    """Tells one package of the strategy's names."""
    import importlib

    def strategy(**options: Any) -> Any:
        from farandole.lightning.registration import classes_for

        return classes_for(package).strategy(**options)

    registry = importlib.import_module(f"{package}.strategies").StrategyRegistry
    for name in NAMES:
        registry.register(name, strategy, description=_DESCRIPTION, override=True)
    _let_accelerator_mean_strategy(importlib.import_module(f"{package}.trainer.connectors.accelerator_connector"))
    _announce_rank()


def _register_or_warn(package: str) -> None:
    # Lightning must stay usable in an environment where Farandole does not fit to it.
    try:
        _register(package)
    except Exception as problem:
        import warnings

        warnings.warn(
            f'Trainer(strategy="horovod") is not available: the registration with {package} failed with '
            f"{type(problem).__name__}: {problem}",
            stacklevel=2,
        )


def _let_accelerator_mean_strategy(module: ModuleType) -> None:
    """``Trainer(accelerator="horovod")``, of Lightning 1, means the strategy, on whatever device there is.

    Lightning 2 asks no accelerator which strategy it wants, so its connector is told before it looks. A Lightning whose
    connector is another is left alone: it refuses the name then.
    """
    import functools

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
    import os

    rank = os.environ.get("HOROVOD_RANK")
    if rank is not None:
        from lightning_utilities.core.rank_zero import rank_zero_only

        rank_zero_only.rank = int(rank)  # type: ignore[attr-defined]


class ImportHook:
    """A finder that calls a function with a module's name once that module has been imported, and then goes away.

    Libraries may look the module up without importing it, to ask whether Lightning is installed: the hook stays.
    """

    def __init__(self, name: str, then: Callable[[str], None]) -> None:
        self.name = name
        self._then = then

    @classmethod
    def install(cls, name: str, then: Callable[[str], None]) -> None:
        """Waits for the import of ``name``; one hook is enough, however often this is called."""
        if not any(isinstance(each, cls) and each.name == name for each in sys.meta_path):
            sys.meta_path.insert(0, cls(name, then))

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        """The spec that the other finders have for this one name, with a loader that comes back here."""
        if fullname != self.name:
            return None
        for finder in list(sys.meta_path):
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self)  # type: ignore[assignment]
                return spec
        return None

    def imported(self) -> None:
        """The module is there."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        self._then(self.name)


class _Loader:
    """Loads as the real loader does, and tells the hook. The module is left with the real loader."""

    def __init__(self, loader: Any, hook: ImportHook) -> None:
        self._loader = loader
        self._hook = hook

    def create_module(self, spec: ModuleSpec) -> Optional[ModuleType]:
        module: Optional[ModuleType] = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._hook.imported()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
