"""Stores at paths that fsspec can use: local or network folders, and object stores."""

from __future__ import annotations

import os
from typing import Any, Callable

from farandole.spark.common import store_files
from farandole.spark.common.store_files import errors_of
from farandole.spark.common.store_filesystem import AbstractFilesystemStore


class _DefaultCallback:
    """Stands for fsspec's callback, so that this module can be imported without fsspec."""

    def __repr__(self) -> str:
        return "_DEFAULT_CALLBACK"


_DEFAULT_CALLBACK = _DefaultCallback()


class FilesystemStore(AbstractFilesystemStore):
    """A store at a path that fsspec can use: a local folder, ``file://``, ``s3://``, ``gs://``, ``abfs://`` and others.

    The arguments are those of ``AbstractFilesystemStore``.

    :raises ImportError: fsspec, or its package for this kind of path, is not installed
    """

    def __init__(self, prefix_path: str, *args: Any, **kwargs: Any) -> None:
        options = args[5] if len(args) > 5 else kwargs.get("storage_options")
        path = prefix_path or kwargs.get("train_path") or (args[0] if args else None)
        if path is None:
            raise ValueError(f"{type(self).__name__} needs prefix_path, or train_path and val_path")
        self._fs, _ = store_files.filesystem_of(path, options)
        super().__init__(prefix_path, *args, **kwargs)

    def copy(
        self, lpath: str, rpath: str, recursive: bool = False, callback: Any = _DEFAULT_CALLBACK, **kwargs: Any
    ) -> None:
        """Copies a local file, or with ``recursive`` a folder, to the store.

        Each file is complete when it gets its name. The other arguments go to fsspec's ``put_file``.
        """
        if callback is not _DEFAULT_CALLBACK:
            kwargs["callback"] = callback
        target = self.get_localized_path(rpath).rstrip("/")
        names = list(store_files.files_below(lpath)) if recursive and os.path.isdir(lpath) else [None]
        with errors_of("write", rpath, self.name):
            for name in names:
                source = lpath if name is None else os.path.join(lpath, name)
                store_files.upload_file(self.fs, source, target if name is None else f"{target}/{name}", **kwargs)

    def get_filesystem(self) -> Any:
        """The fsspec filesystem, as ``fs``."""
        return self._fs

    def fs_is_local(self) -> bool:
        return store_files.is_local(self.fs)

    def get_localized_path(self, path: str) -> str:
        return str(self.fs._strip_protocol(path))

    def get_full_path(self, path: str) -> str:
        return str(self.fs.unstrip_protocol(self.fs._strip_protocol(path))) if "://" not in path else path

    def get_full_path_fn(self) -> Callable[[str], str]:
        return self.get_full_path

    @property
    def fs(self) -> Any:
        return self._fs

    @classmethod
    def matches(cls, path: str) -> bool:
        """Whether this class can be the store of the path: it takes every path that fsspec takes."""
        return True


class LocalStore(FilesystemStore):
    """A store in a local folder, or in a folder of a network filesystem that all hosts mount at the same path."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
