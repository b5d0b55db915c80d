"""The Horovod interface, under its own name: ``import horovod.torch`` *is* ``farandole.torch``.

Each submodule that is asked for is the module of the same name in ``farandole``, the same object; nothing is loaded
before it is asked for.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence

if TYPE_CHECKING:
    from farandole.runner import run as run

__version__ = "0.28.1"
"""The level of the interface, so that version checks of other libraries pass; see ``farandole.__version__``."""


class _Alias(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds ``horovod.x.y`` as ``farandole.x.y``."""

    def __init__(self) -> None:
        self._own_specs: Dict[str, Optional[importlib.machinery.ModuleSpec]] = {}

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """Knows submodules of ``horovod`` only."""
        package, _, rest = fullname.partition(".")
        if package != "horovod" or not rest:
            return None
        try:
            found = importlib.util.find_spec(f"farandole.{rest}")
        except ModuleNotFoundError as problem:
            if problem.name != f"farandole.{rest}":
                raise
            # It names the package that was probably meant.
            raise ModuleNotFoundError(str(problem).replace("farandole.", "horovod."), name=fullname) from None
        if found is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, origin=found.origin)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """The module itself. Python is about to write the alias's spec into it, so its own is kept aside."""
        module = importlib.import_module("farandole" + spec.name[len("horovod") :])
        self._own_specs[spec.name] = module.__spec__
        return module

    def get_code(self, fullname: str) -> Optional[CodeType]:
        """The code of the module, for ``python -m``."""
        spec = importlib.util.find_spec("farandole" + fullname[len("horovod") :])
        get = getattr(spec.loader if spec else None, "get_code", None)
        return get(spec.name) if spec and get else None

    def exec_module(self, module: ModuleType) -> None:
        """The module has run already: it gets its own spec back."""
        alias = module.__spec__
        if alias is not None and alias.name in self._own_specs:
            module.__spec__ = self._own_specs.pop(alias.name)


if not any(type(finder).__name__ == "_Alias" for finder in sys.meta_path):
    sys.meta_path.insert(0, _Alias())


def __getattr__(name: str) -> Any:
    if name in ("run", "runner"):
        runner = importlib.import_module("horovod.runner")
        return runner if name == "runner" else runner.run
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
