"""The Ray actor that is a member of a job: its process keeps its state between calls."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

import ray

from farandole.ray import ray_logger
from farandole.ray.functions import received
from farandole.runner.functions import job_secret


@dataclass(frozen=True)
class Node:
    """The node and the process in which an actor runs."""

    node_id: str
    hostname: str
    process: int
    gpu_ids: Tuple[str, ...]
    """The GPUs that Ray has given to the actor."""
    visible_gpus: Tuple[str, ...]
    """The GPUs to which the node's raylet is limited; empty: it sees all."""


@dataclass(frozen=True)
class Ended:
    """The end of a worker of an elastic job."""

    rank: int
    """Its last rank."""
    code: int
    """Its exit code."""
    has_value: bool = False
    """Whether its function has returned."""
    value: Any = None
    """The result of the function."""


class FunctionHasExited(RuntimeError):
    """A function of a job of fixed size has called ``sys.exit()``, which does not end its worker."""


class BaseHorovodWorker:
    """A worker of a job. It is made an actor by ``ray.remote(BaseHorovodWorker)``."""

    executable: Any = None
    """The object of ``start_executable()``."""

    def __init__(self, world_rank: int = 0, world_size: int = 1) -> None:
        self._secret_descriptor = -1
        self._rendezvous: Optional[Any] = None
        self._function = b""
        node_id = self.node_id()
        self.update_env_vars({"HOROVOD_HOSTNAME": node_id, "HOROVOD_RANK": world_rank, "HOROVOD_SIZE": world_size})
        os.environ.setdefault("FARANDOLE_HOST_ID", node_id)  # two nodes on one machine have local ranks of their own

    def node_id(self) -> str:
        """Ray's id of this node. Two nodes may have the same host name, but not the same id."""
        return str(ray.get_runtime_context().get_node_id())

    def hostname(self) -> str:
        """The host name of this node."""
        return socket.gethostname()

    def get_gpu_ids(self) -> List[int]:
        """The GPUs that Ray has given to this actor."""
        return ray.get_gpu_ids()

    def node(self) -> Node:
        """All facts about this actor's node and process, in one call."""
        own = tuple(str(gpu) for gpu in self.get_gpu_ids())
        return Node(self.node_id(), self.hostname(), os.getpid(), own, _gpus_of_raylet())

    def update_env_vars(self, env_vars: Dict[str, Any]) -> None:
        """Sets environment variables of this process. Values are turned into text."""
        os.environ.update({name: str(value) for name, value in env_vars.items()})

    def env_vars(self) -> Dict[str, str]:
        """The environment of this process."""
        return dict(os.environ)

    def start_executable(
        self,
        executable_cls: Optional[type] = None,
        executable_args: Optional[list] = None,
        executable_kwargs: Optional[dict] = None,
    ) -> None:
        """Creates the object that later calls get as their argument.

        :param executable_cls: its class; None: there is no object
        """
        if executable_cls is not None:
            self.executable = executable_cls(*(executable_args or []), **(executable_kwargs or {}))

    def execute(self, func: Any) -> Any:
        """Calls a function with the object of ``start_executable()``, and returns its result.

        :param func: a function, or the result of ``functions.sendable()``
        """
        if isinstance(func, bytes):
            self._function = func
        try:
            return received(func)(self.executable)
        except SystemExit as problem:  # in an actor, it would end the process
            raise FunctionHasExited(f"the function has called sys.exit({problem.code!r})") from problem

    def execute_again(self) -> Any:
        """Calls the function that ``execute()`` has last received as the result of ``functions.sendable()``."""
        return self.execute(self._function)

    def execute_to_end(self, func: Any) -> Ended:
        """Calls a function with the object of ``start_executable()``, then leaves the job in order."""
        from farandole.common import exit_status, job
        from farandole.runner.worker import place

        try:
            value = received(func)(self.executable)
        except SystemExit as problem:  # as by a worker that has lost its place in the job
            return Ended(place()["rank"], exit_status.status(problem))
        rank = place()["rank"]
        job.complete()
        self.leave_job()
        return Ended(rank, 0, True, value)

    def set_queue(self, queue: Any) -> None:
        """Sets the queue of ``ray_logger.log()``; None: there is none."""
        ray_logger.configure(queue)

    def keep_secret(self, secret: str) -> None:
        """Stores the job's secret in a file without a name, which only this user can read and which ends with this
        process. Processes that this process starts find it by the path in the environment.
        """
        before = self._secret_descriptor
        self._secret_descriptor, os.environ[job_secret.FILE_VARIABLE] = job_secret.file_of(secret)
        if before >= 0:
            os.close(before)

    def serve_rendezvous(self, size: int, nics: Optional[Sequence[str]]) -> Dict[str, str]:
        """Starts the rendezvous of a job on this node, as a child of this process, with the secret of
        ``keep_secret()``. Returns the variables by which workers find it.

        :param size: number of workers of the job
        :param nics: interfaces of this node to listen on; None: that of the address that Ray knows
        """
        from farandole.ray.coordinator import Rendezvous

        self._rendezvous = Rendezvous(size, nics)
        return self._rendezvous.variables

    def leave_job(self) -> None:
        """Leaves the job in order, if this process is a member. Workers that wait for this one then fail at once."""
        if "farandole.common.job" in sys.modules:
            from farandole.runner.worker import leave_job

            leave_job()

    def close(self) -> None:
        """Leaves the job, and ends the rendezvous."""
        self.leave_job()
        rendezvous, self._rendezvous = self._rendezvous, None
        if rendezvous is not None:
            rendezvous.close()


def _gpus_of_raylet() -> Tuple[str, ...]:
    with open("/proc/self/environ", "rb") as file:  # Ray has changed os.environ since this process was started
        variables = dict(line.partition("=")[::2] for line in os.fsdecode(file.read()).split("\0"))
    return tuple(filter(None, variables.get("CUDA_VISIBLE_DEVICES", "").split(",")))
