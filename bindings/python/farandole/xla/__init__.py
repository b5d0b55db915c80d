"""HorovodAllreduce inside of functions that XLA compiles: an optional piece, built on the user's machine.

Everything else of Farandole serves every version of TensorFlow from one binary. XLA's interface for operations has no
stable form, so this piece is compiled against the installed TensorFlow, by ``farandole build-xla``, and loaded where
``HOROVOD_ENABLE_XLA_OPS=1`` is set when ``farandole.tensorflow`` is imported.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import farandole
from farandole import _native
from farandole.common.switches import is_on

OLDEST = "2.17.0"
"""The first TensorFlow whose wheels have the interface that the piece is written for."""


def is_wanted() -> bool:
    """Whether the environment asks for it."""
    return is_on("HOROVOD_ENABLE_XLA_OPS")


def built_path(tensorflow_version: str) -> Path:
    """Path of the library for a TensorFlow: in the user's cache, separate for each version of either side."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "farandole" / farandole.__version__ / f"libfarandole_xla-{tensorflow_version}.so"


def load(tensorflow: Any) -> None:
    """Adds the operations to this process's TensorFlow; ``ImportError`` with a remedy if they have not been built."""
    path = built_path(tensorflow.__version__)
    if not path.exists():
        raise ImportError(
            "HOROVOD_ENABLE_XLA_OPS=1 asks for operations that XLA compiles, and they have not been built for "
            f"TensorFlow {tensorflow.__version__}: run 'farandole build-xla' in this environment once, or unset the "
            "variable"
        )
    # It resolves TensorFlow's C++ symbols, so its libraries' must be visible to it.
    tensorflow.load_library(str(path))
    library = ctypes.CDLL(str(path))
    library.farandole_connect.argtypes = [ctypes.c_void_p]
    if not library.farandole_connect(_native.kernel_api()):
        raise ImportError(f"{path} was built for another version of Farandole: run 'farandole build-xla' again")
