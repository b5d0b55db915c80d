"""A job of fixed size on Ray: its actors are the members, and keep their state between calls."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional

import ray

from farandole.ray.adapter import Adapter, BaseParams
from farandole.ray.calls import log_queue, results_of
from farandole.ray.errors import Place, WorkerError
from farandole.ray.ranks import adjacent, variables_by_rank
from farandole.ray.sender import Sender
from farandole.ray.strategy import BaseStrategy, ColocatedStrategy, PGStrategy
from farandole.ray.worker import Node

CLOSING_S = 5.0
"""How long workers may take to leave their job in order, before they are killed."""
ENDING_S = 5.0
"""How long ``shutdown()`` waits until the processes of killed actors have ended."""


@dataclass
class StaticParams(BaseParams):
    """The size of a job of fixed size. ``AssertionError`` if it is given twice."""

    num_workers: Optional[int] = None
    num_hosts: Optional[int] = None
    num_workers_per_host: int = 1
    use_current_placement_group: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_workers is not None and self.num_hosts is not None:
            raise AssertionError(
                f"num_workers ({self.num_workers}) and num_hosts ({self.num_hosts}) exclude each other: give "
                "num_workers, or num_hosts with num_workers_per_host"
            )
        for name in ("num_workers", "num_hosts", "num_workers_per_host"):
            count = getattr(self, name)
            if count is not None and count < 1:
                raise ValueError(f"{name} is {count}, and must be at least 1")
        if self.num_workers is None and self.num_hosts is None:
            raise ValueError("the size of the job is missing: give num_workers, num_hosts, or min_workers")

    @property
    def elastic(self) -> bool:
        """Whether workers may come and go: False."""
        return False

    @property
    def adapter(self) -> type:
        """The class that runs such a job."""
        return StaticAdapter


class StaticAdapter(Adapter):
    """Runs a job of fixed size."""

    def __init__(
        self,
        settings: Any,
        num_workers: Optional[int] = None,
        num_hosts: Optional[int] = None,
        num_workers_per_host: int = 1,
        cpus_per_worker: int = 1,
        use_gpu: bool = False,
        gpus_per_worker: Optional[int] = None,
        use_current_placement_group: bool = True,
    ) -> None:
        """See ``RayExecutor``."""
        self.settings = settings
        self._sizes = StaticParams(
            cpus_per_worker=cpus_per_worker,
            use_gpu=use_gpu,
            gpus_per_worker=gpus_per_worker,
            num_workers=num_workers,
            num_hosts=num_hosts,
            num_workers_per_host=num_workers_per_host,
            use_current_placement_group=use_current_placement_group,
        )
        self.strategy: Optional[BaseStrategy] = None
        self.workers: List[Any] = []
        """The actors by rank."""
        self._places: List[Place] = []
        self._sender = Sender([], [])
        self._pending: List[Any] = []
        """Calls of ``run_remote()`` that may still run."""
        self._loss: Optional[WorkerError] = None
        """Why the job cannot continue."""

    def start(
        self,
        executable_cls: Optional[type] = None,
        executable_args: Optional[List] = None,
        executable_kwargs: Optional[Dict] = None,
        extra_env_vars: Optional[Dict] = None,
    ) -> None:
        """Creates the actors, gives them their ranks, and starts the rendezvous on the node of rank 0. If this fails,
        nothing is left in the cluster."""
        if self.strategy is not None:
            raise RuntimeError("start() was called twice: this executor has workers; call shutdown() first")
        self.strategy = self._create_strategy()
        try:
            self._start_workers(extra_env_vars or {})
            self._call_all("start_executable", executable_cls, executable_args, executable_kwargs)
        except BaseException:
            self.shutdown()
            raise

    def _create_strategy(self) -> BaseStrategy:
        sizes = self._sizes
        common: Dict[str, Any] = {
            "settings": self.settings,
            "use_gpu": sizes.use_gpu,
            "cpus_per_worker": sizes.cpus_per_worker,
            "gpus_per_worker": sizes.gpus_per_worker,
        }
        if sizes.num_hosts is not None:
            per_host = sizes.num_workers_per_host
            return ColocatedStrategy(num_hosts=sizes.num_hosts, num_workers_per_host=per_host, **common)
        return PGStrategy(
            num_workers=sizes.num_workers or 1,
            force_create_placement_group=not sizes.use_current_placement_group,
            **common,
        )

    def _start_workers(self, extra_env_vars: Dict[str, Any]) -> None:
        assert self.strategy is not None
        actors = self.strategy.create_workers()
        created = {actor.node.remote(): Place(number) for number, actor in enumerate(actors)}
        timeout_s = self.settings.placement_group_timeout_s
        nodes: List[Node] = results_of(created, timeout_s=timeout_s, demand=self.strategy.demand)
        order = adjacent(nodes)
        self.workers = [actors[number] for number in order]
        self._places = [Place(rank, nodes[number]) for rank, number in enumerate(order)]
        self._sender = Sender(self.workers, self._places)
        secret = secrets.token_hex(32)
        own = variables_by_rank(self.settings, self._places, self._sizes.use_gpu)
        for worker, variables in zip(self.workers, own):
            worker.keep_secret.remote(secret)
            worker.update_env_vars.remote({**variables, **extra_env_vars})
        rendezvous = self.workers[0].serve_rendezvous.remote(len(self.workers), self.settings.nics)
        (variables,) = self._results({rendezvous: self._places[0]})
        self._call_all("update_env_vars", {**variables, **extra_env_vars})

    def execute(
        self,
        fn: Callable[[Any], Any],
        callbacks: Optional[List[Callable]] = None,
    ) -> List[Any]:
        """Calls a function on each worker with the worker's object, and returns the results by rank."""
        self._require_workers("execute()")
        with log_queue(self.workers, callbacks) as logs:
            return self._run(fn, logs)

    def run(
        self,
        fn: Callable[..., Any],
        args: Optional[List] = None,
        kwargs: Optional[Dict] = None,
        callbacks: Optional[List[Callable]] = None,
    ) -> List[Any]:
        """Calls a function on each worker with these arguments, and returns the results by rank."""
        self._require_workers("run()")
        with log_queue(self.workers, callbacks) as logs:
            return self._run(_without_executable(fn, args, kwargs), logs)

    def run_remote(
        self,
        fn: Callable[..., Any],
        args: Optional[List] = None,
        kwargs: Optional[Dict] = None,
        callbacks: Optional[List[Callable]] = None,
    ) -> List[Any]:
        """Like ``run()``, but returns the object references by rank at once. ``NotImplementedError`` with callbacks,
        because nothing waits for their values."""
        if callbacks:
            raise NotImplementedError("run_remote() cannot call callbacks, because it does not wait; use run()")
        self._require_workers("run_remote()")
        references = list(self._sender.call(_without_executable(fn, args, kwargs)))
        self._pending = [*self._still_running(), *references]
        return references

    def execute_single(self, fn: Callable[[Any], Any]) -> List[Any]:
        """Calls a function on rank 0 with its object, and returns the result."""
        self._require_workers("execute_single()")
        return self._results({self.workers[0].execute.remote(fn): self._places[0]})[0]

    def _run(self, function: Callable[[Any], Any], logs: Optional[Any]) -> List[Any]:
        calls = self._sender.call(function)
        results = self._results(calls, logs)
        self._sender.completed(calls)
        return results

    def _call_all(self, method: str, *args: Any) -> None:
        self._results(
            {getattr(worker, method).remote(*args): place for worker, place in zip(self.workers, self._places)}
        )

    def _results(self, calls: Dict[Any, Place], logs: Optional[Any] = None) -> List[Any]:
        before = self._still_running()
        self._pending = [*before, *calls]
        try:
            results = results_of(calls, logs, self._interrupt)
        except WorkerError as problem:
            if problem.has_died:
                self._loss = problem
            raise
        self._pending = before
        return results

    def _interrupt(self, failed: List[Place]) -> None:
        """Workers whose functions have failed leave the job, so that the calls of the others fail, too."""
        for place in failed:
            self.workers[place.rank].leave_job.remote()

    def _still_running(self) -> List[Any]:
        return ray.wait(self._pending, num_returns=len(self._pending), timeout=0)[1] if self._pending else []

    def _require_workers(self, name: str) -> None:
        if not self.workers:
            raise RuntimeError(f"{name} needs workers, and this executor has none: call start() first")
        if self._loss is not None:
            raise RuntimeError(
                f"{name} needs all workers, and one has been lost: call shutdown(), then start() for new ones. "
                f"{self._loss}"
            ) from self._loss

    def shutdown(self) -> None:
        """Ends the actors and the rendezvous, and removes the placement group. Calls that still run fail. Does nothing
        without workers; ``start()`` may be called again."""
        strategy, self.strategy = self.strategy, None
        if strategy is None:
            return
        try:
            if self._loss is None and not self._still_running():
                closing = [worker.close.remote() for worker in self.workers]
                if closing:
                    ray.wait(closing, num_returns=len(closing), timeout=CLOSING_S)
        finally:
            actors = list(strategy.workers)
            for actor in actors:
                ray.kill(actor)
            strategy.shutdown()
            _wait_for_end(actors)
            self.workers, self._places, self._pending, self._loss = [], [], [], None


def _wait_for_end(actors: List[Any]) -> None:
    """Waits until Ray has ended the processes of killed actors."""
    if actors:
        ray.wait([actor.node.remote() for actor in actors], num_returns=len(actors), timeout=ENDING_S)


def _without_executable(fn: Callable[..., Any], args: Optional[List], kwargs: Optional[Dict]) -> Callable[[Any], Any]:
    """A function of the worker's object that calls ``fn`` without it."""

    def call(_executable: Any) -> Any:
        return fn(*(args or []), **(kwargs or {}))

    return call
