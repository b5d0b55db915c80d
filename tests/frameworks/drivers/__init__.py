"""The facts about a framework that the suite needs to test its binding: how tensors are made and read, which types
they may have, and which exceptions stand for errors.

Each framework that the suite tests has one file, ``drivers/NAME.py`` with a class ``FrameworkDriver(Driver)``, where
NAME is the package below ``farandole``; Keras and Lightning have tests of their own only. The file may import the
framework at its top, because it is loaded in the environment of that framework only. The suite reads from
``farandole.common.signatures`` which operations are in the framework's table, and skips all other operations.

To add a framework: copy ``drivers/numpy.py``, add what docs/contributing.md lists, and run the suite on 2 and 3 ranks
as ``conftest.py`` beside this folder says. A plain pytest runs ``suite/test_launch_*.py``, with the same environment
variable.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import Any, Callable, ClassVar, Dict, List, Optional, Tuple, Type, Union

import numpy
from farandole.common import signatures

Exceptions = Union[Type[BaseException], Tuple[Type[BaseException], ...]]

VARIABLE = "FARANDOLE_TEST_FRAMEWORK"

INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
FLOATS = ("float16", "bfloat16", "float32", "float64")


class Driver:
    """One framework. The defaults fit most frameworks; a framework's file overrides those that do not fit."""

    name: ClassVar[str]
    """As in ``farandole.NAME``."""

    reducible: ClassVar[Tuple[str, ...]] = (*INTEGERS, *FLOATS)
    """Types of reductions, by NumPy's names; ``bfloat16`` too."""
    movable: ClassVar[Tuple[str, ...]] = (*INTEGERS, *FLOATS, "bool")
    """Types of allgather, broadcast and alltoall that the runtime knows."""
    as_bytes: ClassVar[Tuple[str, ...]] = ("complex64", "uint32")
    """Types that ``make`` makes, that these operations move as bytes, and that reductions refuse."""
    modes: ClassVar[Tuple[str, ...]] = ("eager",)
    """Ways to call an operation, "eager" first; see ``run``."""
    static_modes: ClassVar[Tuple[str, ...]] = ()
    """Modes in which shapes are known before the call, so that all ranks give and get the same number of rows."""
    differentiates: ClassVar[bool] = False
    """Whether operations have gradients; see ``gradient``."""
    prelude: ClassVar[str]
    """The head of a script: imports the package as ``hvd`` and defines ``make(values)``, which makes a float32 tensor
    of a list, and ``read(tensor)``, which waits for a tensor if needed and makes a list of it."""

    @property
    def hvd(self) -> ModuleType:
        """The package, as users import it."""
        return importlib.import_module(f"horovod.{self.name}")

    def offers(self, function: str, parameter: str = "") -> bool:
        """Whether the table of signatures has the function, with this parameter."""
        text = signatures.PACKAGES[self.name].get(function)
        return text is not None and (not parameter or parameter in dict(signatures.read(text)))

    # ---- tensors

    def make(self, values: Any, dtype: str) -> Any:
        """A tensor of this type with these values, an array or a nested list. Never shares memory with them."""
        raise NotImplementedError

    def to_numpy(self, tensor: Any) -> Any:
        """The values of the tensor, after waiting for them if needed. bfloat16 is returned as float32."""
        raise NotImplementedError

    def dtype_of(self, tensor: Any) -> str:
        """The name of the tensor's type."""
        raise NotImplementedError

    def is_tensor(self, value: Any) -> bool:
        """Whether the value is a tensor of the framework."""
        raise NotImplementedError

    # ---- calls

    def has_dynamic_shapes(self, mode: str) -> bool:
        """Whether ranks may give and get different numbers of rows in this mode."""
        return mode not in self.static_modes

    def run(self, mode: str, function: Callable[..., Any], *tensors: Any) -> Any:
        """Calls a function of tensors in one of the modes: directly, or compiled into a graph."""
        assert mode == "eager"
        return function(*tensors)

    def broadcast_in_place(self, tensors: List[Any], root_rank: int, name: str) -> List[Any]:
        """Calls ``broadcast_`` on each tensor; returns the tensors, with the root's content."""
        return [self.hvd.broadcast_(each, root_rank, name=f"{name}.{i}") for i, each in enumerate(tensors)]

    def start(self, tensor: Any, name: str) -> Optional[Callable[[], Any]]:
        """Starts an allreduce with Sum without waiting for it. Returns a function that waits and gives the result, or
        None in a framework whose calls all wait."""
        if not self.offers("allreduce_async"):
            return None
        handle = self.hvd.allreduce_async(tensor, name=name, op=self.hvd.Sum)
        return lambda: self.hvd.synchronize(handle)

    def gradient(self, function: Callable[[Any], Any], tensor: Any, weights: Any) -> Any:
        """The gradient, with respect to the tensor, of the sum of ``function(tensor) * weights``; an array.

        :param weights: a NumPy array of the result's shape
        """
        raise NotImplementedError

    # ---- errors

    def either(self, *kinds: str) -> Tuple[Type[BaseException], ...]:
        """The exceptions of several kinds of errors."""
        found = [self.errors()[kind] for kind in kinds]
        return tuple(each for kind in found for each in (kind if isinstance(kind, tuple) else (kind,)))

    def errors(self) -> Dict[str, Exceptions]:
        """The exceptions that stand for each kind of error.

        ``mismatch``      the ranks' requests do not agree
        ``precondition``  the job is not initialized
        ``aborted``       a reducescatter with an impossible reduction
        ``invalid``       invalid arguments, found on this rank
        ``dtype``         a type that the operation does not support
        """
        from farandole.common.exceptions import HorovodInternalError, MismatchError

        return {
            "mismatch": MismatchError,
            "precondition": HorovodInternalError,
            "aborted": HorovodInternalError,
            "invalid": ValueError,
            "dtype": ValueError,
        }


def current() -> Driver:
    """The driver of the framework that the environment variable names."""
    name = os.environ.get(VARIABLE, "")
    if not name:
        raise RuntimeError(f"say which framework is to be tested: {VARIABLE}=torch")
    module = importlib.import_module(f"drivers.{name.replace('.', '_')}")
    driver: Driver = module.FrameworkDriver()
    return driver


def as_array(values: Any) -> Any:
    """A new array with these values."""
    return numpy.array(values)
