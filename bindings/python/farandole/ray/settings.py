"""The settings of jobs on Ray, and parameters that have two spellings."""

from __future__ import annotations

import functools
import os
import warnings
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Sequence

from farandole.runner.common.util import secret, timeout


@dataclass
class MiniSettings:
    """Settings of a job of fixed size, as ``RayExecutor.create_settings()`` returns them."""

    nics: Optional[Sequence[str]] = None
    """Network interfaces of the workers; None: they are found."""
    verbose: int = 1
    """2 for messages about each step."""
    key: bytes = field(default_factory=secret.make_secret_key, repr=False)
    ssh_port: Optional[int] = None
    """Not used: no worker is started by ssh."""
    ssh_identity_file: Optional[str] = None
    timeout_s: int = 300
    """Seconds until all workers must have called ``init()``, after the first."""
    placement_group_timeout_s: int = 100
    """Seconds to wait for the resources of the workers, and then for their processes."""
    elastic: bool = False

    @property
    def start_timeout(self) -> timeout.Timeout:
        """A deadline that begins now."""
        return timeout.Timeout(
            self.timeout_s,
            "{activity} took longer than {timeout} s: check that the nodes reach one another, or wait longer "
            "(create_settings(timeout_s=...))",
        )


def write_identity(ssh_identity_file: Optional[str], ssh_str: Optional[str]) -> None:
    """Writes a private key of ssh to a file that does not exist yet, for tools that use it; only this user can read
    the file. ``ValueError`` if there is a key and no file name."""
    if not ssh_str:
        return
    if not ssh_identity_file:
        raise ValueError("ssh_str is given without ssh_identity_file, the path of the file to write it to")
    try:
        descriptor = os.open(ssh_identity_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with open(descriptor, "w") as file:
        file.write(ssh_str)


def accepts_spellings(function: Callable[..., Any], **spellings: str) -> Callable[..., Any]:
    """The function, with another spelling for some of its keyword parameters. Its signature shows the first only.

    :param spellings: the parameter for each other spelling
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for spelling, name in spellings.items():
            if spelling in kwargs:
                if name in kwargs:
                    raise TypeError(f"{name} and {spelling} are the same parameter; leave one of them out")
                kwargs[name] = kwargs.pop(spelling)
        return function(*args, **kwargs)

    return call


def accepts_verbosity(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that returns settings, with the additional keyword parameter ``verbose``."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        verbose = kwargs.pop("verbose", None)
        settings = function(*args, **kwargs)
        if verbose is not None:
            settings.verbose = int(verbose)
        return settings

    return call


def warn_deprecated(text: str) -> None:
    """A ``DeprecationWarning`` for the caller of the function that calls this one."""
    warnings.warn(text, DeprecationWarning, stacklevel=3)
