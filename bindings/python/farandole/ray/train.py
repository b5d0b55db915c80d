"""A backend for Ray Train: the workers that its trainer starts are the members of a job.

from ray.train import ScalingConfig
from ray.train.data_parallel_trainer import DataParallelTrainer

DataParallelTrainer(train, backend_config=FarandoleConfig(), scaling_config=ScalingConfig(num_workers=4)).fit()
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any, Dict, Optional, Sequence

import ray
from ray.train.backend import Backend, BackendConfig

from farandole.ray.coordinator import Coordinator
from farandole.ray.settings import MiniSettings
from farandole.ray.worker import BaseHorovodWorker, Node


@dataclass
class FarandoleConfig(BackendConfig):
    """The backend's settings. The training function calls ``hvd.init()``, and may use all of Ray Train."""

    timeout_s: int = 30
    """Seconds until all workers must have called ``init()``, after the first."""
    nics: Optional[Sequence[str]] = None
    """Network interfaces of the workers; None: they are found."""
    extra_env_vars: Dict[str, Any] = field(default_factory=dict)
    """Environment variables of the workers; settings among them apply to the job."""

    @property
    def backend_cls(self) -> type:
        """The class that prepares the workers."""
        return _FarandoleBackend


class _FarandoleBackend(Backend):
    """Prepares each group of workers that Ray Train starts, also after a failure."""

    share_cuda_visible_devices = True

    def on_start(self, worker_group: Any, backend_config: FarandoleConfig) -> None:
        """Gives the workers their places, and starts the rendezvous on the node of rank 0."""
        size = len(worker_group)
        nodes = ray.get([worker_group.execute_single_async(rank, _enter, rank, size) for rank in range(size)])
        coordinator = Coordinator(MiniSettings(nics=backend_config.nics))
        for rank, node in enumerate(nodes):
            coordinator.register(node.hostname, node.node_id, rank)
        secret = secrets.token_hex(32)
        common = {"HOROVOD_START_TIMEOUT": backend_config.timeout_s, **backend_config.extra_env_vars}
        calls = []
        for rank, numbers in coordinator.finalize_registration().items():
            calls.append(worker_group.execute_single_async(rank, _prepare, secret, {**numbers, **common}))
        ray.get(calls)
        variables = worker_group.execute_single(0, _serve, size, backend_config.nics)
        worker_group.execute(_add_variables, variables)

    def on_shutdown(self, worker_group: Any, backend_config: FarandoleConfig) -> None:
        """Lets the workers leave the job, and ends the rendezvous."""
        worker_group.execute(_close)


_member: Optional[BaseHorovodWorker] = None
"""The member of the job that this process is."""


def _enter(rank: int, size: int) -> Node:
    global _member
    _member = BaseHorovodWorker(rank, size)
    return _member.node()


def _present() -> BaseHorovodWorker:
    if _member is None:
        raise RuntimeError("this worker of Ray Train was not prepared by FarandoleConfig; its group may have changed")
    return _member


def _prepare(secret: str, variables: Dict[str, Any]) -> None:
    _present().keep_secret(secret)
    _present().update_env_vars(variables)


def _serve(size: int, nics: Optional[Sequence[str]]) -> Dict[str, str]:
    return _present().serve_rendezvous(size, nics)


def _add_variables(variables: Dict[str, str]) -> None:
    _present().update_env_vars(variables)


def _close() -> None:
    if _member is not None:
        _member.close()
