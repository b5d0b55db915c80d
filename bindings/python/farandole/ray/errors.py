"""Turns failures of actors into one exception that names the rank, the node and the cause."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import Any, List, Optional

import ray

from farandole.common import departure
from farandole.ray.worker import Node

_COLOUR = re.compile(r"\x1b\[\d+m")
_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")


@dataclass(frozen=True)
class Place:
    """A worker's rank, and its node, if it is known."""

    rank: int
    node: Optional[Node] = None

    def __str__(self) -> str:
        if self.node is None:
            return f"rank {self.rank}"
        return f"rank {self.rank} on node {self.node.node_id} ({self.node.hostname})"


class WorkerError(RuntimeError):
    """A worker has failed. The cause of the exception is Ray's own exception.

    If a function has raised an exception of another class, the exception that callers get also belongs to that class.
    """

    rank: int = -1
    node_id: str = ""
    has_died: bool = False
    """Whether the worker's process has ended, so that the job cannot continue."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._text = text

    def __str__(self) -> str:
        return self._text


@dataclass(frozen=True)
class Failure:
    """The failure of one worker's call."""

    place: Place
    problem: BaseException
    at: float = field(default_factory=time.monotonic)

    @property
    def has_died(self) -> bool:
        """Whether the worker's process has ended."""
        return isinstance(self.problem, (ray.exceptions.RayActorError, ray.exceptions.NodeDiedError))

    @property
    def is_consequence(self) -> bool:
        """Whether the worker has failed because another one did."""
        return departure.behind(self._cause) is not None

    @property
    def _cause(self) -> BaseException:
        """The exception that the function has raised."""
        cause = getattr(self.problem, "cause", None)
        return cause if isinstance(cause, BaseException) else self.problem

    def error(self) -> WorkerError:
        """The exception for the caller."""
        cause = self._cause
        report = _COLOUR.sub("", str(self.problem))
        missing = _MISSING_MODULE.search(report)
        if self.has_died:
            text = f"{self.place} died, so that the job has ended: {report}"
        elif isinstance(cause, ModuleNotFoundError) or (missing and isinstance(cause, ray.exceptions.RaySystemError)):
            name = cause.name if isinstance(cause, ModuleNotFoundError) else missing[1] if missing else ""
            text = (
                f"{self.place} has no module {name}, which the function needs: install it on every node, or send it "
                f"along by ray.init(runtime_env={{'py_modules': [...]}})\n{report}"
            )
        elif isinstance(cause, (ray.exceptions.OutOfDiskError, ray.exceptions.ObjectStoreFullError)):
            text = (
                f"the result or another object of {self.place} fits neither into Ray's object store nor on the disk: "
                "return less, such as the path of a file, or give Ray more room (ray.init(object_store_memory=...))\n"
                f"{report}"
            )
        elif isinstance(self.problem, ray.exceptions.RayTaskError):
            text = f"{self.place} raised {type(cause).__name__}: {cause}\n{report}"
        else:
            text = f"the call on {self.place} has failed: {type(self.problem).__name__}: {report}"
        error = _class_with(type(cause))(text)
        error.rank = self.place.rank
        error.node_id = self.place.node.node_id if self.place.node is not None else ""
        error.has_died = self.has_died
        error.__cause__ = self.problem
        return error


def cause_of(failures: List[Failure]) -> Failure:
    """The failure that has caused the others: a worker without a node, before the death of a worker, before the
    exception of a function, before failures that follow from those of other workers."""
    return min(
        failures,
        key=lambda failure: (
            failure.is_consequence,
            failure.place.node is not None,
            not failure.has_died,
            failure.place.rank,
        ),
    )


def _class_with(cause: Any) -> Any:
    """``WorkerError``, derived also from the class of the cause, where Python allows that."""
    if issubclass(WorkerError, cause) or issubclass(cause, ray.exceptions.RayError):
        return WorkerError
    try:
        bases = (WorkerError, cause)
        derived: Any = type("WorkerError", bases, {"__module__": __name__, "__init__": WorkerError.__init__})
        derived("")
        return derived
    except Exception:  # the layouts of their objects differ, or a text does not suffice to create them
        return WorkerError
