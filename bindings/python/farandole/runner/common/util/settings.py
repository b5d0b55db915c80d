"""The settings of a launch, for tools that call ``gloo_run`` and its relatives."""

from __future__ import annotations

from typing import Any, Iterable, Optional


class BaseSettings:
    """Settings of jobs of a fixed size and of elastic jobs."""

    def __init__(
        self,
        num_proc: Optional[int] = None,
        verbose: int = 0,
        ssh_port: Optional[int] = None,
        ssh_identity_file: Optional[str] = None,
        extra_mpi_args: Optional[str] = None,
        tcp_flag: Optional[bool] = None,
        binding_args: Optional[str] = None,
        key: Optional[bytes] = None,
        start_timeout: Any = None,
        output_filename: Optional[str] = None,
        run_func_mode: Optional[bool] = None,
        nics: Optional[Iterable[str]] = None,
        elastic: bool = False,
        prefix_output_with_timestamp: bool = False,
    ) -> None:
        """
        :param verbose: 0 for no output of the launcher, 2 for each step
        :param key: of the services that the caller offers to its workers
        :param start_timeout: seconds, or a ``Timeout``
        :param run_func_mode: whether workers run a function
        """
        self.num_proc = num_proc
        self.verbose = verbose
        self.ssh_port = ssh_port
        self.ssh_identity_file = ssh_identity_file
        self.extra_mpi_args = extra_mpi_args
        self.tcp_flag = tcp_flag
        self.binding_args = binding_args
        self.key = key
        self.start_timeout = start_timeout
        self.output_filename = output_filename
        self.run_func_mode = run_func_mode
        self.nics = nics
        self.elastic = elastic
        self.prefix_output_with_timestamp = prefix_output_with_timestamp


class Settings(BaseSettings):
    """Settings of a job of a fixed size."""

    def __init__(self, hosts: Optional[str] = None, **kwargs: Any) -> None:
        """
        :param hosts: "name:slots,name:slots"
        """
        super().__init__(**kwargs)
        self.hosts = hosts
