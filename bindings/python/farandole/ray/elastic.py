"""``ElasticRayExecutor``, the older interface to elastic jobs on Ray; ``RayExecutor(min_workers=...)`` replaces it."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple, cast

from farandole.ray import discovery
from farandole.ray.elastic_v2 import ElasticAdapter
from farandole.ray.settings import warn_deprecated
from farandole.runner.common.util import secret
from farandole.runner.elastic.settings import ElasticSettings


class RayHostDiscovery(discovery.RayHostDiscovery):
    """``discovery.RayHostDiscovery`` with the older names of its parameters."""

    def __init__(self, use_gpu: bool = False, cpus_per_slot: int = 1, gpus_per_slot: int = 1) -> None:
        super().__init__(use_gpu, cpus_per_slot, gpus_per_slot)


class TestDiscovery(discovery.TestDiscovery, RayHostDiscovery):
    """``discovery.TestDiscovery`` with the older names of its parameters."""

    def __init__(
        self,
        min_hosts: int,
        max_hosts: int,
        change_frequency_s: float,
        use_gpu: bool = False,
        cpus_per_slot: int = 1,
        gpus_per_slot: int = 1,
        verbose: bool = True,
        _graceful: bool = True,
    ) -> None:
        super().__init__(
            min_hosts, max_hosts, change_frequency_s, use_gpu, cpus_per_slot, gpus_per_slot, verbose, _graceful
        )


class ElasticRayExecutor:
    """Runs a function as an elastic job. Deprecated: use ``RayExecutor`` with ``min_workers``."""

    @staticmethod
    def create_settings(
        min_num_proc: int = 1,
        max_num_proc: Optional[int] = None,
        reset_limit: Optional[int] = None,
        elastic_timeout: int = 600,
        timeout_s: int = 30,
        ssh_identity_file: Optional[str] = None,
        nics: Optional[Any] = None,
        min_np: Optional[int] = None,
        max_np: Optional[int] = None,
        **kwargs: Any,
    ) -> ElasticSettings:
        """The settings of an elastic job.

        :param reset_limit: how often workers may change before the job ends; None: any number of times
        :param elastic_timeout: seconds to wait for enough slots
        :param timeout_s: seconds until all workers must have called ``init()``, after the first
        :param nics: network interfaces of the workers
        :param min_np: deprecated name of ``min_num_proc``, as is ``max_np`` of ``max_num_proc``
        :param kwargs: further settings, such as ``verbose`` and ``cooldown_range``
        """
        if min_np is not None:
            warn_deprecated("min_np is deprecated; use min_num_proc")
            min_num_proc = min_np
        if max_np is not None:
            warn_deprecated("max_np is deprecated; use max_num_proc")
            max_num_proc = max_np
        further = {"discovery": None, "num_proc": min_num_proc, "key": secret.make_secret_key(), **kwargs}
        return ElasticSettings(
            min_num_proc=min_num_proc,
            max_num_proc=max_num_proc,
            elastic_timeout=elastic_timeout,
            reset_limit=reset_limit,
            start_timeout=timeout_s,
            ssh_identity_file=ssh_identity_file,
            nics=[nics] if isinstance(nics, str) else nics,
            **further,
        )

    def __init__(
        self,
        settings: ElasticSettings,
        use_gpu: bool = False,
        cpus_per_slot: int = 1,
        gpus_per_slot: Optional[int] = None,
        env_vars: Optional[Dict[str, str]] = None,
        override_discovery: bool = True,
    ) -> None:
        """
        :param settings: of ``create_settings()``
        :param env_vars: environment variables of the workers
        :param override_discovery: False: the nodes are those that ``settings.discovery`` finds
        """
        warn_deprecated("ElasticRayExecutor is deprecated; use RayExecutor(settings, min_workers=...)")
        if gpus_per_slot is not None and (not use_gpu or gpus_per_slot < 1):
            raise ValueError(
                f"gpus_per_slot is {gpus_per_slot}, and use_gpu is {use_gpu}: gpus_per_slot must be at least 1, and "
                "needs use_gpu=True; leave it out for workers without a GPU"
            )
        self.settings = settings
        self._env_vars = dict(env_vars or {})
        self.adapter = ElasticAdapter(
            settings,
            min_workers=settings.min_num_proc or 1,
            max_workers=settings.max_num_proc,
            use_gpu=use_gpu,
            cpus_per_worker=cpus_per_slot,
            gpus_per_worker=gpus_per_slot,
            override_discovery=override_discovery,
            reset_limit=settings.reset_limit,
            cooldown_range=cast(Optional[Tuple[int, int]], settings.cooldown_range),
            elastic_timeout=settings.elastic_timeout or 600,
        )

    def start(self) -> None:
        """Prepares the executor; workers start when a function is run."""
        self.adapter.start(extra_env_vars=self._env_vars)

    def run(self, worker_fn: Callable, callbacks: Optional[List[Callable]] = None) -> List[Any]:
        """Calls a function on each worker, without arguments. Returns the results of the workers that have finished, by
        rank; ``RuntimeError`` if the job fails.

        :param callbacks: functions that get each value that a worker passes to ``ray_logger.log()`` meanwhile
        """
        return self.adapter.run(worker_fn, callbacks=callbacks)
