"""Elastic jobs of ``RayExecutor``: the number of workers follows the nodes of the cluster."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from farandole.ray.adapter import Adapter, BaseParams
from farandole.ray.calls import Pump, log_queue
from farandole.ray.discovery import RayHostDiscovery as RayHostDiscovery
from farandole.ray.discovery import TestDiscovery as TestDiscovery
from farandole.ray.elastic_job import ClusterRun, ElasticJob, ElasticRun
from farandole.ray.utils import is_client
from farandole.runner.elastic.discovery import HostDiscovery


@dataclass
class ElasticParams(BaseParams):
    """The rules of an elastic job. ``ValueError`` if they contradict one another."""

    min_workers: int = 1
    max_workers: Optional[int] = None
    reset_limit: Optional[int] = None
    cooldown_range: Optional[Tuple[int, int]] = None
    elastic_timeout: int = 600
    override_discovery: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_workers < 1:
            raise ValueError(f"min_workers is {self.min_workers}, and must be at least 1")
        if self.max_workers is not None and self.max_workers < self.min_workers:
            raise ValueError(f"max_workers ({self.max_workers}) is less than min_workers ({self.min_workers})")

    @property
    def elastic(self) -> bool:
        """Whether workers may come and go: True."""
        return True

    @property
    def adapter(self) -> type:
        """The class that runs such a job."""
        return ElasticAdapter


class ElasticAdapter(Adapter):
    """Runs elastic jobs, one for each call of ``run()`` or ``execute()``."""

    def __init__(
        self,
        settings: Any,
        min_workers: int,
        max_workers: Optional[int] = None,
        use_gpu: bool = False,
        cpus_per_worker: int = 1,
        gpus_per_worker: Optional[int] = None,
        override_discovery: bool = True,
        reset_limit: Optional[int] = None,
        cooldown_range: Optional[Tuple[int, int]] = None,
        elastic_timeout: int = 600,
    ) -> None:
        """See ``RayExecutor``."""
        ElasticParams(
            cpus_per_worker=cpus_per_worker,
            use_gpu=use_gpu,
            gpus_per_worker=gpus_per_worker,
            min_workers=min_workers,
            max_workers=max_workers,
        )
        self.settings = settings
        self._job = ElasticJob(
            discovery=_discovery_of(settings, override_discovery, use_gpu, cpus_per_worker, gpus_per_worker),
            min_workers=min_workers,
            max_workers=max_workers,
            reset_limit=reset_limit,
            cooldown_range=cooldown_range,
            elastic_timeout=elastic_timeout,
            start_timeout=math.ceil(_seconds(settings)),
            nics=settings.nics,
            verbose=int(settings.verbose or 0),
            cpus_per_worker=cpus_per_worker,
            gpus_per_worker=(gpus_per_worker or 1) if use_gpu else 0,
        )
        self._is_started = False
        self._run: Union[ClusterRun, ElasticRun, None] = None

    def start(
        self,
        executable_cls: Optional[type] = None,
        executable_args: Optional[List] = None,
        executable_kwargs: Optional[Dict] = None,
        extra_env_vars: Optional[Dict] = None,
    ) -> None:
        """Stores the parameters of the workers, which start when a function is run."""
        if self._is_started:
            raise RuntimeError("start() was called twice: this executor is ready for run(); call shutdown() first")
        self._is_started = True
        self._job.executable = (executable_cls, executable_args, executable_kwargs)
        self._job.variables = dict(extra_env_vars or {})

    def run(
        self,
        fn: Callable[..., Any],
        args: Optional[List] = None,
        kwargs: Optional[Dict] = None,
        callbacks: Optional[List[Callable]] = None,
    ) -> List[Any]:
        """Calls a function on each worker with these arguments. Returns the results of the workers that have finished,
        by rank; ``RuntimeError`` if the job fails."""
        arguments, named = tuple(args or ()), dict(kwargs or {})

        def call(_executable: Any) -> Any:
            return fn(*arguments, **named)

        return self._results("run()", call, callbacks)

    def execute(
        self,
        fn: Callable[[Any], Any],
        callbacks: Optional[List[Callable]] = None,
    ) -> List[Any]:
        """Calls a function on each worker with the worker's object; otherwise like ``run()``."""
        return self._results("execute()", fn, callbacks)

    def _results(self, name: str, fn: Callable[[Any], Any], callbacks: Optional[List[Callable]]) -> List[Any]:
        if not self._is_started:
            raise RuntimeError(f"{name} was called before start(), or after shutdown(): call start() first")
        with log_queue([], callbacks) as logs:
            if logs is None:
                return self._run_job(fn, None)
            with Pump(logs, self._end_run):
                return self._run_job(fn, logs.queue)

    def _run_job(self, fn: Callable[[Any], Any], queue: Any) -> List[Any]:
        self._run = (ClusterRun if is_client() else ElasticRun)(self._job)
        try:
            return self._run.results(fn, queue)
        finally:
            self._run = None

    def run_remote(self, fn: Callable[..., Any]) -> List[Any]:  # type: ignore[override]
        """``NotImplementedError``: the workers of an elastic job are not known in advance."""
        raise NotImplementedError(
            "run_remote() is not possible in an elastic job, whose workers are not known in advance; call run(), or "
            "give num_workers for a job of fixed size"
        )

    def execute_single(self, fn: Callable[[Any], Any]) -> List[Any]:
        """``NotImplementedError``: rank 0 of an elastic job may change."""
        raise NotImplementedError(
            "execute_single() is not possible in an elastic job, whose rank 0 may change; call execute(), or give "
            "num_workers for a job of fixed size"
        )

    def shutdown(self) -> None:
        """Ends the job that runs in another thread, if there is one. ``start()`` may be called again."""
        self._is_started = False
        self._end_run()

    def _end_run(self) -> None:
        running = self._run
        if running is not None:
            running.stop()


def _discovery_of(
    settings: Any, override_discovery: bool, use_gpu: bool, cpus: int, gpus: Optional[int]
) -> HostDiscovery:
    if override_discovery:
        return RayHostDiscovery(use_gpu, cpus, gpus or 1)
    discovery: Optional[HostDiscovery] = getattr(settings, "discovery", None)
    if discovery is None:
        raise ValueError(
            "override_discovery is False, but settings.discovery is not set: set it to an object with "
            "find_available_hosts_and_slots(), or leave override_discovery out"
        )
    return discovery


def _seconds(settings: Any) -> float:
    limit = settings.start_timeout
    return float(limit.remaining() if hasattr(limit, "remaining") else limit or 0)
