"""Converts errors that TensorFlow raises to the exception classes of the interface.

A kernel reports a code and a text, and TensorFlow raises one of its own exceptions with them. This module recovers
the kind of the error from the text. Its exceptions derive both from TensorFlow's class and from the class of the
interface, so that a script may catch either. Calls outside of graphs raise these exceptions, and so do functions
decorated by ``elastic.run``. A ``tf.function`` that a script calls itself raises TensorFlow's own class.
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
    """The ranks requested different operations under one name."""


class WorkerLostError(tf.errors.UnknownError, exceptions.WorkerLostError):
    """A worker ended while the operation needed it."""


class ShutdownError(tf.errors.UnknownError, exceptions.ShutdownError):
    """The job was shut down before the operation was complete."""


class OperationTimeoutError(tf.errors.UnknownError, exceptions.OperationTimeoutError):
    """The operation was not complete at a deadline."""


class UnknownSetError(tf.errors.InvalidArgumentError, ValueError):
    """The process set is not registered. In other frameworks this is ``ValueError``."""


_CLASSES = {each.kind: each for each in (MismatchError, WorkerLostError, ShutdownError, OperationTimeoutError)}

_OPERATION = re.compile(
    r"\bHorovod(?:Grouped|Absent)?(?:Allreduce|Allgather|Broadcast|Alltoall|Reducescatter|Join|Barrier)"
)
_INTERRUPT = re.compile(r"\bHostsUpdatedInterrupt: (True|False)\b")


def with_class(problem: tf.errors.OpError) -> Optional[HorovodInternalError]:
    """The same error with a class of the interface; None if it is not Farandole's, or of a kind without a class."""
    error_class = _CLASSES.get(kernels.kind_in(str(problem.message)) or "")
    return error_class(problem.node_def, problem.op, problem.message) if error_class else None


def behind(problem: tf.errors.OpError) -> Optional[RuntimeError]:
    """The exception for the elastic loop if TensorFlow's error stands for a failed operation of Farandole, or for a
    ``HostsUpdatedInterrupt`` from within a graph. None for any other error, and for wrong arguments.
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
    """Context that replaces TensorFlow's errors by the exceptions that the elastic loop handles."""
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
    """Wraps TensorFlow's function for an operation so that an error of an eager call has a class of the interface."""

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
