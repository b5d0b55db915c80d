"""Finds the Keras that an object belongs to, and the adapter for the tensors of its backend."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any, Iterator, List, NamedTuple, Tuple

from farandole._keras.distributed import Distributed
from farandole._keras.options import Options
from farandole.common.util import require_framework, to_install

_ROOTS = ("keras", "tf_keras")
_BACKENDS = ("tensorflow", "torch", "jax")


class Library(NamedTuple):
    """One installed Keras."""

    keras: Any
    """The package."""
    is_three: bool
    backend: str
    """``tensorflow``, ``torch`` or ``jax``; also the name of the adapter."""

    @property
    def adapter(self) -> Any:
        """``farandole.tensorflow``, ``farandole.torch`` or ``farandole.jax``."""
        return importlib.import_module(f"farandole.{self.backend}")

    @property
    def variable_kinds(self) -> Any:
        """The class, or tuple of classes, of the variables of a model."""
        return variable_kinds() if self.backend == "tensorflow" else self.keras.Variable

    def reduction(self, options: Options) -> Any:
        """The gradient reduction of one optimizer: ``KerasReduction`` of the backend's adapter.

        The adapters build on this package, which therefore imports none of them: it finds the class by its name.
        """
        return importlib.import_module(f"farandole.{self.backend}.keras_reduction").KerasReduction(options)


def library(keras: Any) -> Library:
    """:param keras: the imported package, or ``tf.keras``"""
    version = getattr(keras, "__version__", "")
    is_three = not version.startswith("2.") and hasattr(keras, "ops")
    backend = keras.backend.backend() if is_three else "tensorflow"
    if backend not in _BACKENDS:
        raise ImportError(f"Farandole has no adapter for Keras on {backend}: use tensorflow, torch or jax")
    return Library(keras, is_three, backend)


def require_keras() -> None:
    """Raises ``ImportError`` with a remedy if Keras is missing or too old, or if its configured backend is
    missing."""
    try:
        require_framework("keras", "2.13.0")
    except ModuleNotFoundError as problem:
        backend = str(problem.name).partition(".")[0]
        if backend not in _BACKENDS:
            raise
        others = [each for each in _BACKENDS if each != backend and importlib.util.find_spec(each) is not None]
        switch = (
            f"set KERAS_BACKEND={' or KERAS_BACKEND='.join(others)}" if others else "choose another by KERAS_BACKEND"
        )
        raise ImportError(
            f"farandole.keras needs {backend}, which Keras is set to use as its backend and which is not installed: "
            f"{switch}, or pip install {to_install(backend)}",
            name=backend,
        ) from None


def keras_of_tensorflow() -> Any:
    """The package that ``tf.keras`` forwards to: Keras 3, the Keras of TensorFlow 2.15, or ``tf_keras``."""
    import tensorflow as tf

    return importlib.import_module(tf.keras.Model.__module__.partition(".")[0])


def variable_kinds() -> Tuple[type, ...]:
    """The classes of variables on TensorFlow: its own, and that of Keras 3 if Keras has been imported."""
    import tensorflow as tf

    own = getattr(sys.modules.get("keras"), "Variable", None)
    return (tf.Variable, own) if isinstance(own, type) else (tf.Variable,)


def library_of(thing: Any) -> Library:
    """The Keras that defines this object's class or a base of it; ``ValueError`` if there is none."""
    for each in type(thing).__mro__:
        root = each.__module__.partition(".")[0]
        if root in _ROOTS:
            return library(importlib.import_module(root))
    raise ValueError(f"this is none of Keras' objects: {type(thing).__module__}.{type(thing).__name__}")


def variables_of(optimizer: Any) -> List[Any]:
    """The variables that an optimizer lists, whether ``variables`` is a list or a method in its Keras.

    Leaves out the variables in which a distributed optimizer accumulates gradients, which differ between ranks.
    """
    variables = getattr(optimizer, "variables", [])
    listed = list(variables() if not isinstance(variables, list) and callable(variables) else variables)
    own: List[Any] = getattr(getattr(optimizer, "_farandole", None), "own_variables", list)()
    return [each for each in listed if not any(each is other for other in own)]


def all_variables_of(optimizer: Any) -> List[Any]:
    """Those that an optimizer lists, and those that Keras 2 leaves out: its rate and other hyperparameters, and the
    scale of a ``LossScaleOptimizer``."""
    listed = variables_of(optimizer)
    known = {id(each) for each in listed}
    others = [each for each in _hyperparameters(optimizer) if hasattr(each, "assign")]
    return listed + [each for each in others if id(each) not in known]


def _hyperparameters(optimizer: Any) -> List[Any]:
    """Variables and numbers, some of which the optimizer may list among its variables."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    scale = getattr(optimizer, "_loss_scale", None)  # of Keras 2
    found = [getattr(inner, "_learning_rate", None)]
    found += [value for _, value in sorted(getattr(inner, "_hyper", {}).items())]  # of a legacy optimizer
    return [*found, getattr(scale, "current_loss_scale", None), getattr(scale, "counter", None)]


def build(optimizer: Any, variables: List[Any]) -> None:
    """Makes the variables that an optimizer otherwise makes in its first step, so that all ranks have the same.

    :param optimizer: or None
    :param variables: those of the model that it trains
    """
    if hasattr(optimizer, "_create_all_weights"):  # a legacy optimizer of Keras 2
        optimizer._create_all_weights(variables)
    elif hasattr(optimizer, "build") and not getattr(optimizer, "built", False):
        optimizer.build(variables)


def nested(optimizer: Any) -> Iterator[Any]:
    """The optimizer, and those inside of it, as in a ``LossScaleOptimizer`` or ``MultiOptimizer``."""
    yield optimizer
    for each in vars(optimizer).get("_inner_optimizers") or []:
        yield from nested(each)
    for name in ("inner_optimizer", "_optimizer"):
        if vars(optimizer).get(name) is not None:
            yield from nested(vars(optimizer)[name])


def discard_passes(optimizer: Any) -> None:
    """Discards the gradients that backward passes have accumulated in distributed optimizers: this one, or those inside
    of it. The steps were undone, or the members have changed.

    :param optimizer: or None
    """
    for each in nested(optimizer) if optimizer is not None else ():
        if isinstance(each, Distributed):
            each._farandole_begin_anew()


def bring_home(model: Any) -> None:
    """On JAX, writes the training state of a running ``fit()`` back to the variables; ``fit()`` reads them again.

    Without this call, variables do not have their current values while ``fit()`` runs.
    """
    if hasattr(model, "jax_state_sync"):
        model.jax_state_sync()
