"""Farandole runs collective operations across the processes of a distributed training job.

Importing this package loads neither a framework nor the native library. Import the binding of your framework, for
example ``import farandole.torch as hvd``. The import also registers the strategy's names with Lightning.
"""

from __future__ import annotations

from farandole._imports import install as _install_finder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from farandole.common.names import mark_step as mark_step
    from farandole.common.stalls import StallReport as StallReport
    from farandole.common.stalls import on_stall as on_stall
    from farandole.runner import run as run
    from farandole.runner import session as session

__version__ = "0.1.0"
"""Farandole's own version; ``horovod.__version__`` is the level of the interface."""

_install_finder()


def __getattr__(name: str) -> Any:
    if name in _LATER:
        import importlib

        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_LATER = {
    "run": "farandole.runner",
    "session": "farandole.runner",
    "mark_step": "farandole.common.names",
    "on_stall": "farandole.common.stalls",
    "StallReport": "farandole.common.stalls",
}
"""The functions of this package, with the modules that are loaded when they are first used: most programs neither start
jobs nor call a function of this package."""
