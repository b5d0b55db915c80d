"""Unpickles tensors, arrays and plain containers, and nothing that could run code (``FARANDOLE_SAFE_OBJECTS=1``)."""

from __future__ import annotations

import io
import pickle
from typing import Any

from farandole.common.switches import is_on

_FIRST_SAFE_TORCH = (2, 6)
"""Before it, ``torch.load(weights_only=True)`` could be made to run code (CVE-2025-32434)."""

_PLAIN = {
    "builtins": ("bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "range", "set")
    + ("slice", "str", "tuple"),
    "collections": ("Counter", "OrderedDict", "defaultdict", "deque"),
    "farandole.common.elastic.references": ("Copy", "Reference"),
    "numpy": ("bool_", "dtype", "ndarray"),
    "numpy.core.multiarray": ("_reconstruct", "scalar"),
    "numpy._core.multiarray": ("_reconstruct", "scalar"),
    "numpy.core.numeric": ("_frombuffer",),
    "numpy._core.numeric": ("_frombuffer",),
    "torch": ("Size", "device"),
    "torch._utils": ("_rebuild_parameter", "_rebuild_tensor", "_rebuild_tensor_v2"),
    "torch.nn.parameter": ("Parameter",),
    "torch.serialization": ("_get_layout",),
}
"""The names that pickles may refer to, by module. None of these calls its arguments."""


def are_required() -> bool:
    """Whether this process accepts no other objects."""
    return is_on("FARANDOLE_SAFE_OBJECTS")


def loads(content: memoryview) -> Any:
    """The object; ``pickle.UnpicklingError`` if it is more than tensors, arrays and plain containers."""
    return _Unpickler(io.BytesIO(content)).load()


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name in _PLAIN.get(module, ()):
            return super().find_class(module, name)
        if (module, name) == ("torch.storage", "_load_from_bytes"):
            return _load_storage
        if module == "torch" or module == "numpy.dtypes":
            found = super().find_class(module, name) if "." not in name else None
            if _is_type_of_elements(module, found):
                return found
        raise pickle.UnpicklingError(
            f"the object contains {module}.{name}, and FARANDOLE_SAFE_OBJECTS=1 accepts tensors, arrays and plain "
            "containers only; send those, or unset it if every rank's script is trusted"
        )


def _is_type_of_elements(module: str, found: Any) -> bool:
    if module == "torch":
        import torch

        return isinstance(found, torch.dtype)
    import numpy

    return isinstance(found, type) and issubclass(found, numpy.dtype)


def _load_storage(content: bytes) -> Any:
    """As ``torch.storage._load_from_bytes``, which would unpickle anything."""
    import torch

    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < _FIRST_SAFE_TORCH:
        raise pickle.UnpicklingError(
            f"the object contains a torch tensor, and torch {torch.__version__} cannot load one safely; with "
            "FARANDOLE_SAFE_OBJECTS=1, install torch 2.6 or newer, or send a NumPy array"
        )
    return torch.load(io.BytesIO(content), weights_only=True)
