"""The classes of the interface for errors that MXNet raises: each is an ``MXNetError`` as well, so that a script may
catch either.

The engine keeps the text of an operation's error and no more. MXNet makes the class from the word before the first
colon, if that word is registered, and so the kernels begin with ``farandole.`` and the kind.
"""

from __future__ import annotations

import re
from typing import Optional

from mxnet.base import MXNetError, register_error

from farandole.common import exceptions


class MismatchError(MXNetError, exceptions.MismatchError):
    """The ranks asked for different things under one name."""


class WorkerLostError(MXNetError, exceptions.WorkerLostError):
    """A worker ended while the operation needed it."""


class ShutdownError(MXNetError, exceptions.ShutdownError):
    """The job was shut down before the operation was complete."""


class OperationTimeoutError(MXNetError, exceptions.OperationTimeoutError):
    """The operation was not complete at a deadline."""


_CLASSES = {each.kind: each for each in (MismatchError, WorkerLostError, ShutdownError, OperationTimeoutError)}
_BEGINNING = re.compile(r"farandole\.([a-z_]+): ")


def make_error(kind: Optional[str], text: str) -> MXNetError:
    """The exception for an error of the native runtime; ``MXNetError`` itself for kinds without a class."""
    return _CLASSES.get(kind or "", MXNetError)(text)


def error_from(text: str) -> MXNetError:
    """The exception for what a kernel or MXNet tells of an operation."""
    begins = _BEGINNING.match(text)
    return make_error(begins.group(1).replace("_", " "), text[begins.end() :]) if begins else MXNetError(text)


for _kind in exceptions.KINDS:
    register_error(f"farandole.{_kind.replace(' ', '_')}", error_from)
