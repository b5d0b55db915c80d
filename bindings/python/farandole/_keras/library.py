"""Which Keras something belongs to, and which adapter its tensors go through."""

from __future__ import annotations

import importlib
from typing import Any, List, NamedTuple

_ROOTS = ("keras", "tf_keras")


class Library(NamedTuple):
    """One Keras that is installed."""

    keras: Any
    """The package."""
    is_three: bool
    backend: str
    """``tensorflow``, ``torch`` or ``jax``; also the name of the adapter."""

    @property
    def adapter(self) -> Any:
        """``farandole.tensorflow``, ``farandole.torch`` or ``farandole.jax``."""
        return importlib.import_module(f"farandole.{self.backend}")


def library(keras: Any) -> Library:
    """:param keras: the package, as it is imported; ``tf.keras`` too"""
    version = getattr(keras, "__version__", "")
    is_three = not version.startswith("2.") and hasattr(keras, "ops")
    backend = keras.backend.backend() if is_three else "tensorflow"
    if backend not in ("tensorflow", "torch", "jax"):
        raise ImportError(f"Farandole has no adapter for Keras on {backend}: use tensorflow, torch or jax")
    return Library(keras, is_three, backend)


def keras_of_tensorflow() -> Any:
    """The package behind ``tf.keras``, which is a view of it: Keras 3, TensorFlow 2.15's own, or ``tf_keras``."""
    import tensorflow as tf

    return importlib.import_module(tf.keras.Model.__module__.partition(".")[0])


def library_of(thing: Any) -> Library:
    """The Keras whose class this object has, or derives from; ``ValueError`` if there is none."""
    for each in type(thing).__mro__:
        root = each.__module__.partition(".")[0]
        if root in _ROOTS:
            return library(importlib.import_module(root))
    raise ValueError(f"this is none of Keras' objects: {type(thing).__module__}.{type(thing).__name__}")


def variables_of(optimizer: Any) -> List[Any]:
    """An optimizer's variables, whether its Keras has them as a list or answers them when called; without those in
    which a distributed one adds up what is this rank's own."""
    variables = getattr(optimizer, "variables", [])
    listed = list(variables() if not isinstance(variables, list) and callable(variables) else variables)
    own: List[Any] = getattr(getattr(optimizer, "_farandole", None), "own_variables", list)()
    return [each for each in listed if not any(each is other for other in own)]


def bring_home(model: Any) -> None:
    """On JAX, variables have their values only after this while ``fit()`` runs; it reads them anew then."""
    if hasattr(model, "jax_state_sync"):
        model.jax_state_sync()
