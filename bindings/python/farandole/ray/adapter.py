"""The interface of the two implementations of ``RayExecutor``: of fixed size, and elastic."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional


@dataclass
class BaseParams:
    """The resources of each worker. ``ValueError`` if they contradict one another."""

    cpus_per_worker: int = 1
    use_gpu: bool = False
    gpus_per_worker: Optional[int] = None

    def __post_init__(self) -> None:
        if self.gpus_per_worker is not None and not self.use_gpu:
            raise ValueError(
                f"gpus_per_worker is {self.gpus_per_worker}, but use_gpu is not set: set use_gpu=True, or leave "
                "gpus_per_worker out"
            )
        if self.use_gpu and self.gpus_per_worker is not None and self.gpus_per_worker < 1:
            raise ValueError(
                f"gpus_per_worker is {self.gpus_per_worker}, and must be at least 1 with use_gpu=True; leave both out "
                "for workers without a GPU"
            )


class Adapter(ABC):
    """A job on Ray."""

    @abstractmethod
    def start(
        self,
        executable_cls: Optional[type] = None,
        executable_args: Optional[List] = None,
        executable_kwargs: Optional[Dict] = None,
        extra_env_vars: Optional[Dict] = None,
    ) -> None:
        """Prepares the job.

        :param executable_cls: class of the object that each worker creates
        :param extra_env_vars: environment variables of the workers
        """

    @abstractmethod
    def execute(
        self,
        fn: Callable[[Any], Any],
        callbacks: Optional[List[Callable]] = None,
    ) -> List[Any]:
        """Calls a function on each worker with the worker's object, and returns the results by rank.

        :param callbacks: functions that get each value that a worker passes to ``ray_logger.log()``
        """

    @abstractmethod
    def run(
        self,
        fn: Callable[..., Any],
        args: Optional[List] = None,
        kwargs: Optional[Dict] = None,
        callbacks: Optional[List[Callable]] = None,
    ) -> List[Any]:
        """Calls a function on each worker with these arguments, and returns the results by rank."""

    @abstractmethod
    def run_remote(
        self,
        fn: Callable[..., Any],
        args: Optional[List] = None,
        kwargs: Optional[Dict] = None,
        callbacks: Optional[List[Callable]] = None,
    ) -> List[Any]:
        """Like ``run()``, but returns object references at once."""

    @abstractmethod
    def execute_single(self, fn: Callable[[Any], Any]) -> List[Any]:
        """Calls a function on rank 0 with its object, and returns the result."""

    @abstractmethod
    def shutdown(self) -> None:
        """Ends the job, and removes all that it has created in the cluster."""
