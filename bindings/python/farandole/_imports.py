"""An import finder. It registers the strategy's names when Lightning is imported, and suggests the most similar
package when the name of a package of Farandole is mistyped.

``import farandole`` installs the finder. For scripts that import Lightning and nothing of Farandole, the file
``farandole_lightning.pth`` beside the package imports it when Python starts. So this module imports nothing but
``sys``.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, Optional, Sequence

LIGHTNING = ("lightning.pytorch", "pytorch_lightning")
"""The two packages that Lightning comes in."""

FRAMEWORKS = ("torch", "tensorflow", "keras", "mxnet", "jax", "numpy", "lightning", "ray", "spark")
OTHER_NAMES = {
    "tf": "tensorflow",
    "pytorch": "torch",
    "pytorch_lightning": "lightning",
    "np": "numpy",
    "pyspark": "spark",
}


def install() -> None:
    """Installs the finder before all others, once, and registers the strategy with packages already imported."""
    if not any(type(each).__module__ == __name__ for each in sys.meta_path):
        sys.meta_path.insert(0, Finder())
    for package in LIGHTNING:
        if package in sys.modules:
            _tell_lightning(package)


def _tell_lightning(package: str) -> None:
    from farandole._lightning import register_or_warn

    register_or_warn(package)


class Finder:
    """Delegates to the other finders, and changes their answer for a few names."""

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        """Returns the other finders' spec; Lightning's gets a loader that registers the strategy afterwards.

        For a package of Farandole that does not exist, it raises an error that suggests the nearest name. The
        registration is left to the loader because libraries may look Lightning up without importing it, to find out
        whether it is installed.
        """
        package, _, name = fullname.partition(".")
        is_binding = package == "farandole" and name != "" and "." not in name
        if fullname not in LIGHTNING and not is_binding:
            return None
        for finder in list(sys.meta_path):
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                if not is_binding and spec.loader is not None:
                    spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
                return spec
        nearest = nearest_framework(name) if is_binding and name not in FRAMEWORKS else None
        if nearest is None:
            return None
        raise ModuleNotFoundError(f"No module named {fullname!r}; did you mean '{package}.{nearest}'?", name=fullname)


def nearest_framework(name: str) -> Optional[str]:
    """The package for a framework whose name is mistyped, or another name for it; None if no name is near."""
    import difflib

    name = name.lower()
    known = {**{each: each for each in FRAMEWORKS}, **OTHER_NAMES}
    near = difflib.get_close_matches(name, known, 1, 0.75)
    return known[near[0]] if near else None


class _Loader:
    """Loads with the real loader, then registers the strategy. The loaded module refers to the real loader."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> Optional[ModuleType]:
        module: Optional[ModuleType] = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        _tell_lightning(module.__name__)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
