"""``RayExecutor``, which runs functions on workers that are Ray actors."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

from farandole.ray.adapter import Adapter, BaseParams
from farandole.ray.coordinator import Coordinator
from farandole.ray.settings import MiniSettings, accepts_spellings, accepts_verbosity, write_identity
from farandole.ray.static_adapter import StaticAdapter, StaticParams

__all__ = [
    "BaseParams",
    "Coordinator",
    "MiniSettings",
    "RayExecutor",
    "StaticAdapter",
    "StaticParams",
]


def _create_settings(
    cls: type,
    timeout_s: int = 30,
    ssh_identity_file: Optional[str] = None,
    ssh_str: Optional[str] = None,
    placement_group_timeout_s: int = 100,
    nics: Optional[Any] = None,
) -> MiniSettings:
    """The settings of a job.

    :param timeout_s: seconds until all workers must have called ``init()``, after the first
    :param ssh_identity_file: is not used by workers; ``ssh_str`` is written to it, with the mode 0600
    :param placement_group_timeout_s: seconds to wait for the resources of the workers, and then for their processes
    :param nics: network interfaces of the workers
    """
    write_identity(ssh_identity_file, ssh_str)
    return MiniSettings(
        ssh_identity_file=ssh_identity_file,
        timeout_s=timeout_s,
        placement_group_timeout_s=placement_group_timeout_s,
        nics=[nics] if isinstance(nics, str) else nics,
    )


class RayExecutor:
    """Runs functions on workers that are Ray actors, and members of a job.

    A job of fixed size has ``num_workers`` workers on as few nodes as possible, or ``num_hosts`` times
    ``num_workers_per_host``. An elastic job has ``min_workers`` to ``max_workers``, which may come and go.
    """

    create_settings = classmethod(accepts_verbosity(_create_settings))

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
        min_workers: Optional[int] = None,
        max_workers: Optional[int] = None,
        reset_limit: Optional[int] = None,
        cooldown_range: Optional[List[int]] = None,
        elastic_timeout: int = 600,
        override_discovery: bool = True,
    ) -> None:
        """``ValueError`` or, for ``num_workers`` with ``num_hosts``, ``AssertionError`` if parameters contradict one
        another.

        :param settings: of ``create_settings()``
        :param cpus_per_worker: also known as ``cpus_per_slot``, and ``gpus_per_worker`` as ``gpus_per_slot``
        :param use_current_placement_group: whether the workers use the placement group of the calling task or actor, if
            it has one, instead of a new group
        :param reset_limit: how often workers may change before an elastic job ends; None: any number of times
        :param cooldown_range: shortest and longest time in seconds after which a node that has failed gets workers
            again; None: never
        :param elastic_timeout: seconds that an elastic job waits for enough slots
        :param override_discovery: False: the nodes are those that ``settings.discovery`` finds
        """
        if min_workers is None:
            _refuse_elastic_options(
                max_workers=max_workers,
                reset_limit=reset_limit,
                cooldown_range=cooldown_range,
                elastic_timeout=None if elastic_timeout == 600 else elastic_timeout,
                override_discovery=None if override_discovery else False,
            )
        else:
            _refuse_sizes(min_workers, num_workers=num_workers, num_hosts=num_hosts)
        resources: Dict[str, Any] = {
            "cpus_per_worker": cpus_per_worker,
            "use_gpu": use_gpu,
            "gpus_per_worker": gpus_per_worker,
        }
        self.settings = settings
        self.params: Any
        self.adapter: Adapter
        if min_workers is not None:
            from farandole.ray.elastic_v2 import ElasticAdapter, ElasticParams  # loads the native library

            rules: Dict[str, Any] = {
                "min_workers": min_workers,
                "max_workers": max_workers,
                "reset_limit": reset_limit,
                "cooldown_range": tuple(cooldown_range) if cooldown_range is not None else None,
                "elastic_timeout": elastic_timeout,
                "override_discovery": override_discovery,
            }
            self.params = ElasticParams(**resources, **rules)
            self.adapter = ElasticAdapter(settings, **resources, **rules)
        else:
            sizes: Dict[str, Any] = {
                "num_workers": num_workers,
                "num_hosts": num_hosts,
                "num_workers_per_host": num_workers_per_host,
                "use_current_placement_group": use_current_placement_group,
            }
            self.params = StaticParams(**resources, **sizes)
            self.adapter = StaticAdapter(settings, **resources, **sizes)

    __init__ = accepts_spellings(__init__, cpus_per_slot="cpus_per_worker", gpus_per_slot="gpus_per_worker")

    def start(
        self,
        executable_cls: Optional[type] = None,
        executable_args: Optional[List] = None,
        executable_kwargs: Optional[Dict] = None,
        extra_env_vars: Optional[Dict] = None,
    ) -> None:
        """Starts the workers; of an elastic job, ``run()`` and ``execute()`` start them.

        :param executable_cls: class of the object that each worker creates, and that ``execute()`` passes to functions
        :param extra_env_vars: environment variables of the workers
        """
        self.adapter.start(executable_cls, executable_args, executable_kwargs, extra_env_vars)

    def execute(
        self,
        fn: Callable[[Any], Any],
        callbacks: Optional[List[Callable]] = None,
    ) -> List[Any]:
        """Calls a function on each worker with the worker's object. Returns the results by rank; ``WorkerError`` if a
        worker fails.

        :param callbacks: functions that get each value that a worker passes to ``ray_logger.log()`` meanwhile
        """
        return self.adapter.execute(fn, callbacks=callbacks)

    def run(
        self,
        fn: Callable[..., Any],
        args: Optional[List] = None,
        kwargs: Optional[Dict] = None,
        callbacks: Optional[List[Callable]] = None,
    ) -> List[Any]:
        """Calls a function on each worker with these arguments. Returns the results by rank; of an elastic job, those
        of the workers that have finished. ``WorkerError`` if a worker fails."""
        return self.adapter.run(fn, args, kwargs, callbacks)

    def run_remote(
        self, fn: Callable[..., Any], args: Optional[List] = None, kwargs: Optional[Dict] = None
    ) -> List[Any]:
        """Like ``run()``, but returns Ray's object references by rank at once. ``NotImplementedError`` in an elastic
        job."""
        if self.params.elastic:
            return self.adapter.run_remote(fn)  # says what to call instead
        return self.adapter.run_remote(fn, args, kwargs)

    def execute_single(self, fn: Callable[[Any], Any]) -> List[Any]:
        """Calls a function on rank 0 with its object, and returns the result. ``NotImplementedError`` in an elastic
        job."""
        return self.adapter.execute_single(fn)

    def shutdown(self) -> None:
        """Ends the job, and removes its actors, placement group and processes from the cluster."""
        self.adapter.shutdown()


def _refuse_elastic_options(**options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            raise ValueError(
                f"{name} is {value}, but min_workers is not set: give min_workers too for an elastic job, or leave "
                f"{name} out for a job of fixed size"
            )


def _refuse_sizes(min_workers: int, **sizes: Optional[int]) -> None:
    for name, count in sizes.items():
        if count is not None:
            raise ValueError(
                f"min_workers ({min_workers}) and {name} ({count}) exclude each other: give min_workers for an elastic "
                f"job, or {name} for a job of fixed size"
            )
