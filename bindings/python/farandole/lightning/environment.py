"""The place of this process in the form that Lightning asks for, common to both of its packages."""

from __future__ import annotations

import os
from typing import NoReturn

import farandole.torch as hvd


def start() -> None:
    """Joins the job, if that has not been done."""
    if not hvd.is_initialized():
        hvd.init()


class Environment:
    """A cluster environment of Lightning. The launcher decides processes, ranks and addresses."""

    @property
    def creates_processes_externally(self) -> bool:
        """``horovodrun`` starts them."""
        return True

    @property
    def main_address(self) -> NoReturn:
        """There is none: processes find each other through the launcher."""
        raise RuntimeError("the strategy 'farandole' needs no main address; torch.distributed is not used")

    @property
    def main_port(self) -> NoReturn:
        """There is none either."""
        raise RuntimeError("the strategy 'farandole' needs no main port; torch.distributed is not used")

    @staticmethod
    def detect() -> bool:
        """Whether this process is a member of a job, or was started as one."""
        return hvd.is_initialized() or "HOROVOD_RANK" in os.environ

    def world_size(self) -> int:
        """Processes in the job."""
        start()
        return hvd.size()

    def set_world_size(self, size: int) -> None:
        """The launcher has decided it."""

    def global_rank(self) -> int:
        """This process's number in the job."""
        start()
        return hvd.rank()

    def set_global_rank(self, rank: int) -> None:
        """The launcher has decided it."""

    def local_rank(self) -> int:
        """This process's number on its host."""
        start()
        return hvd.local_rank()

    def node_rank(self) -> int:
        """The host's number among those that have a process of this one's local rank."""
        start()
        return hvd.cross_rank()
