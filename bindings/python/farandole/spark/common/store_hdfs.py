"""A store on HDFS."""

from __future__ import annotations

import re
from typing import Any, Callable, List, Optional, Tuple

from farandole.spark.common.store_filesystem import AbstractFilesystemStore

_URL = re.compile(r"^hdfs://(?:(?P<host>[^/:]*)(?::(?P<port>[0-9]+))?)?(?P<path>/.*)?$")


class HDFSStore(AbstractFilesystemStore):
    """A store on HDFS, by PyArrow's binding to ``libhdfs``. It connects when ``fs`` is first used.

    :param prefix_path: the folder of the store, with or without ``hdfs://host:port``. It may be left out when
        ``train_path`` and ``val_path`` are given
    :param host: the name node; by default the one of the URL, or else of Hadoop's configuration
    :param port: its port; by default the one of the URL, or else of Hadoop's configuration
    :param user: the name to log in with
    :param kerb_ticket: the path of the cache of Kerberos tickets
    :param driver: ``"libhdfs"``, the only one that PyArrow still has
    :param extra_conf: further settings of Hadoop, from name to value
    """

    FS_PREFIX = "hdfs://"

    def __init__(
        self,
        prefix_path: Optional[str] = None,
        host: Optional[str] = None,
        port: Optional[int] = None,
        user: Optional[str] = None,
        kerb_ticket: Optional[str] = None,
        driver: str = "libhdfs",
        extra_conf: Optional[dict] = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        if driver != "libhdfs":
            raise ValueError(f"driver is 'libhdfs', not {driver!r}: PyArrow has no other")
        url_host: Optional[str] = None
        url_port: Optional[int] = None
        first = prefix_path if prefix_path is not None else kwargs.get("train_path", args[0] if args else None)
        if first is not None:
            url_host, url_port, _ = self.parse_url(first)
        self._host = host or url_host
        self._port = port or url_port
        self._user = user
        self._kerb_ticket = kerb_ticket
        self._extra_conf = extra_conf
        self._fs: Any = None
        super().__init__(prefix_path, *args, **kwargs)
        if self.storage_options is None:  # with which workers connect
            given = {"user": user, "kerb_ticket": kerb_ticket, "extra_conf": extra_conf}
            self.storage_options = {name: value for name, value in given.items() if value is not None} or None

    def parse_url(self, url: str) -> Tuple[Optional[str], Optional[int], str]:
        """The host, the port and the path of ``hdfs://host:port/path`` or of a path; None for parts that are missing.

        :raises ValueError: the URL has another scheme, or no path
        """
        if "://" not in url:
            return None, None, url if url.startswith("/") else f"/{url}"
        parts = _URL.match(url)
        if parts is None or not parts["path"]:
            raise ValueError(f"{url} is not an HDFS path: write hdfs://host:port/path, hdfs:///path or /path")
        return parts["host"] or None, int(parts["port"]) if parts["port"] else None, parts["path"]

    def get_full_path(self, path: str) -> str:
        host, port, location = self.parse_url(path)
        host, port = host or self._host, port or self._port
        return f"{self.FS_PREFIX}{host or ''}{f':{port}' if host and port else ''}{location}"

    def get_full_path_fn(self) -> Callable[[str], str]:
        return self.get_full_path

    @property
    def fs(self) -> Any:
        """
        :raises OSError: ``libhdfs`` or the name node cannot be reached; the message has the reason
        """
        if self._fs is None:
            self._fs = self._connect()
        return self._fs

    def _connect(self) -> Any:
        from fsspec.implementations.arrow import ArrowFSWrapper
        from pyarrow.fs import HadoopFileSystem

        return ArrowFSWrapper(
            HadoopFileSystem(
                host=self._host or "default",
                port=self._port or 0,
                user=self._user,
                kerb_ticket=self._kerb_ticket,
                extra_conf=self._extra_conf,
            )
        )

    def __getstate__(self) -> dict:
        """Without the connection: the process that unpickles the store makes its own."""
        return {**self.__dict__, "_fs": None}

    def sync_fn(self, run_id: str) -> Callable[[str], None]:
        run_path = self.get_run_path(run_id)

        def sync(local_run_path: str) -> None:
            from farandole.spark.common.store_files import RunUploader

            if not uploaders:
                location = self.get_localized_path(run_path)
                uploaders.append(RunUploader(self.fs, location, self.get_checkpoint_filename(), self.name))
            uploaders[0](local_run_path)

        uploaders: List[Any] = []  # made by the process that copies, which has its own connection
        return sync

    def get_localized_path(self, path: str) -> str:
        return self.parse_url(path)[2]

    @classmethod
    def matches(cls, path: str) -> bool:
        """Whether the path is a URL of HDFS."""
        return path.startswith(cls.FS_PREFIX)
