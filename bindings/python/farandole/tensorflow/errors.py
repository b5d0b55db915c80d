"""The classes of the interface for errors that TensorFlow raises.

A kernel gives TensorFlow a code and a text, and TensorFlow makes one of its own exceptions of them. Here the kind is
read from the text again. The exceptions of this module are both: what TensorFlow would have raised, and the class of
the interface, so that a script may catch either. Calls outside of graphs raise them, and so does what ``elastic.run``
has decorated. Out of a ``tf.function`` that a script calls itself comes TensorFlow's own class.
"""

from __future__ import annotations

import contextlib
import functools
import re
from typing import Any, Callable, Iterator, Optional, TypeVar

import tensorflow as tf

from farandole.common import exceptions, kernels
from farandole.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt, make_error

Function = TypeVar("Function", bound=Callable[..., Any])


class MismatchError(tf.errors.FailedPreconditionError, exceptions.MismatchError):
    """The ranks asked for different things under one name."""


class WorkerLostError(tf.errors.UnknownError, exceptions.WorkerLostError):
    """A worker ended while the operation needed it."""


class ShutdownError(tf.errors.UnknownError, exceptions.ShutdownError):
    """The job was shut down before the operation was complete."""


class OperationTimeoutError(tf.errors.UnknownError, exceptions.OperationTimeoutError):
    """The operation was not complete at a deadline."""


_CLASSES = {each.kind: each for each in (MismatchError, WorkerLostError, ShutdownError, OperationTimeoutError)}

_OPERATION = re.compile(r"\bHorovod(?:Grouped)?(?:Allreduce|Allgather|Broadcast|Alltoall|Reducescatter|Join|Barrier)")
_INTERRUPT = re.compile(r"\bHostsUpdatedInterrupt: (True|False)\b")


def with_class(problem: tf.errors.OpError) -> Optional[HorovodInternalError]:
    """The same error with a class of the interface; None if it is none of ours, or of a kind without a class."""
    error_class = _CLASSES.get(kernels.kind_in(str(problem.message)) or "")
    return error_class(problem.node_def, problem.op, problem.message) if error_class else None


def behind(problem: tf.errors.OpError) -> Optional[RuntimeError]:
    """What the elastic loop has to know about an error of TensorFlow's: an operation of ours that failed, or an
    interrupt from within a graph. None for any other error, and for wrong arguments.
    """
    text = str(problem.message)
    interrupt = _INTERRUPT.search(text)
    if interrupt:
        return HostsUpdatedInterrupt(interrupt.group(1) == "True")
    known = with_class(problem) or kernels.error_in(text)
    if known is None and isinstance(problem, tf.errors.CancelledError) and _OPERATION.search(text):
        return make_error("unknown", text)  # another operation of the same step has failed
    return known


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Errors of TensorFlow's that the elastic loop has to know become those that it knows."""
    try:
        yield
    except HorovodInternalError:
        raise
    except tf.errors.OpError as problem:
        known = behind(problem)
        if known is None:
            raise
        raise known from problem


def translating(function: Function) -> Function:
    """One of TensorFlow's functions for our operations, whose errors get their classes where it runs at once."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except tf.errors.OpError as problem:
            known = with_class(problem)
            if known is None:
                raise
            raise known.with_traceback(problem.__traceback__) from None

    return call  # type: ignore[return-value]
