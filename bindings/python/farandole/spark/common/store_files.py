"""Writes files to a store so that a reader finds each of them complete or not at all.

A file or folder is written under a temporary name beside its target, and moved when it is complete. No write needs
random access. The functions take an fsspec filesystem and a path on it.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Tuple

from farandole.spark.common.constants import INCOMPLETE, MANIFEST_FILE


class StoreError(OSError):
    """A store cannot be read or written. The message has the path and the cause."""


@contextmanager
def errors_of(action: str, path: str, store: str) -> Iterator[None]:
    """Turns the errors of a filesystem into ``StoreError`` with the path and the cause."""
    try:
        yield
    except StoreError:
        raise
    except FileNotFoundError as problem:
        raise StoreError(f"cannot {action} {path}: it does not exist in the store {store} ({problem})") from problem
    except Exception as problem:
        cause = f"{type(problem).__name__}: {problem}"
        raise StoreError(
            f"cannot {action} {path} of the store {store}: {cause}. "
            "Check that the path exists, that this user may write there, and that there is free space"
        ) from problem


def filesystem_of(path: str, storage_options: Optional[Mapping[str, Any]] = None) -> Tuple[Any, str]:
    """The fsspec filesystem of a path or URL, and the path on it.

    :raises ImportError: fsspec, or the package for this kind of URL, is not installed
    """
    try:
        from fsspec.core import url_to_fs
    except ImportError as problem:
        raise ImportError("stores need the package fsspec: pip install fsspec") from problem
    try:
        return url_to_fs(path, **dict(storage_options or {}))
    except ImportError as problem:
        raise ImportError(f"the store {path} needs another package for fsspec: {problem}") from problem


_LOCAL_PROTOCOLS = ("file", "local")


def is_local(filesystem: Any) -> bool:
    """Whether paths of the filesystem are paths of this machine."""
    protocols = filesystem.protocol if isinstance(filesystem.protocol, (tuple, list)) else (filesystem.protocol,)
    return any(each in _LOCAL_PROTOCOLS for each in protocols)


def checked_run_id(run_id: str) -> str:
    """
    :raises ValueError: the run's folder would not be a folder directly below the runs
    """
    if not isinstance(run_id, str) or not run_id or run_id in (".", "..") or re.search(r"[/\\\0*?\[]", run_id):
        raise ValueError(
            f"run_id is the name of a folder below the store's runs, not {run_id!r}: leave out '/', '\\', '..', '*', "
            "'?' and '['"
        )
    return run_id


def check_no_pattern(is_local_path: bool, path: Optional[str]) -> None:
    """
    :raises ValueError: fsspec would take the path for a pattern, which might match folders of others
    """
    if path is not None and not is_local_path and re.search(r"[*?\[]", path):
        raise ValueError(f"the path {path} of a store contains '*', '?' or '[', which stand for other names: rename it")


def replace(filesystem: Any, source: str, target: str) -> None:
    """Moves a file or a folder to its target, which it replaces. For a local file, and for a file of an object store,
    readers find the old content or the new at all times."""
    if is_local(filesystem) and not os.path.isdir(source) and not os.path.isdir(target):
        os.replace(source, target)
        return
    filesystem.invalidate_cache()
    is_folder = filesystem.isdir(source)
    if _can_rename(filesystem):
        if filesystem.exists(target):
            filesystem.rm(target, recursive=True)
        filesystem.mv(source, target, recursive=is_folder)
        return
    if (is_folder or filesystem.isdir(target)) and filesystem.exists(target):
        filesystem.rm(target, recursive=True)
    files = filesystem.find(source) if is_folder else [source]
    # The list of files comes last, so that a copy that is interrupted has none.
    for file in sorted(files, key=lambda name: name.endswith(f"/{MANIFEST_FILE}")):
        filesystem.cp_file(file, target + file[len(source) :])
    filesystem.rm(source, recursive=True)


def _can_rename(filesystem: Any) -> bool:
    """Whether the filesystem has a way of its own to move files. Object stores have none: fsspec copies the files."""
    from fsspec import AbstractFileSystem

    return type(filesystem).mv is not AbstractFileSystem.mv


def temporary_name(path: str) -> str:
    """A new name beside the path."""
    folder, _, name = path.rstrip("/").rpartition("/")
    return f"{folder}/{INCOMPLETE}{uuid.uuid4().hex}-{name}"


def _written(filesystem: Any, path: str, write: Callable[[str], None]) -> None:
    temporary = temporary_name(path)
    filesystem.makedirs(path.rstrip("/").rpartition("/")[0], exist_ok=True)
    try:
        write(temporary)
        replace(filesystem, temporary, path)
    except BaseException:
        try:
            filesystem.rm(temporary, recursive=True)
        except Exception:
            pass  # the first error says more
        raise


def write_bytes(filesystem: Any, path: str, content: bytes) -> None:
    """Writes a file under a temporary name, then moves it."""
    _written(filesystem, path, lambda temporary: filesystem.pipe_file(temporary, content))


def upload_file(filesystem: Any, local_path: str, path: str, **options: Any) -> None:
    """Copies a local file under a temporary name, then moves it. The options go to ``put_file``."""
    _written(filesystem, path, lambda temporary: filesystem.put_file(local_path, temporary, **options))


def upload_folder(filesystem: Any, local_path: str, path: str) -> None:
    """Copies a local folder with a list of its files under a temporary name, then moves it."""
    sizes = {name: os.path.getsize(os.path.join(local_path, name)) for name in files_below(local_path)}

    def write(temporary: str) -> None:
        for name in sizes:
            target = f"{temporary}/{name}"
            filesystem.makedirs(target.rpartition("/")[0], exist_ok=True)
            filesystem.put_file(os.path.join(local_path, name), target)
        filesystem.makedirs(temporary, exist_ok=True)
        filesystem.pipe_file(f"{temporary}/{MANIFEST_FILE}", json.dumps(sizes).encode())

    _written(filesystem, path, write)


def files_below(local_path: str) -> Iterator[str]:
    """The files below a local folder, by their names relative to it, in order."""
    for folder, folders, names in os.walk(local_path):
        folders.sort()
        for name in sorted(names):
            yield os.path.relpath(os.path.join(folder, name), local_path).replace(os.sep, "/")


def is_complete(filesystem: Any, path: str) -> bool:
    """Whether a checkpoint exists and is complete. A file is, since it was moved; a folder must have all files of its
    list with their sizes."""
    filesystem.invalidate_cache()
    if INCOMPLETE in path or not filesystem.exists(path):
        return False
    if not filesystem.isdir(path):
        return True
    manifest = f"{path.rstrip('/')}/{MANIFEST_FILE}"
    if not filesystem.exists(manifest):
        return False
    sizes: Dict[str, int] = json.loads(filesystem.cat_file(manifest))
    return all(_size(filesystem, f"{path.rstrip('/')}/{name}") == size for name, size in sizes.items())


def _size(filesystem: Any, path: str) -> int:
    try:
        return int(filesystem.size(path))
    except FileNotFoundError:
        return -1


class RunUploader:
    """Copies the local folder of a run to the store. Each call copies the files that are new or have changed.

    A folder whose name is the checkpoint's is copied as one checkpoint: a reader sees it complete or not at all.
    """

    def __init__(self, filesystem: Any, run_path: str, checkpoint_filename: str, store: str) -> None:
        self._filesystem = filesystem
        self._run_path = run_path.rstrip("/")
        self._checkpoint_filename = checkpoint_filename
        self._store = store
        self._uploaded: Dict[str, Tuple[int, int]] = {}

    def __call__(self, local_run_path: str) -> None:
        """
        :raises StoreError: the store cannot be written
        """
        checkpoint = os.path.join(local_run_path, self._checkpoint_filename)
        whole = f"{self._checkpoint_filename}/" if os.path.isdir(checkpoint) else None
        names = list(files_below(local_run_path))
        changed = [name for name in names if self._state(local_run_path, name) != self._uploaded.get(name)]
        with errors_of("copy the run to", self._run_path, self._store):
            for name in changed:
                if whole is None or not name.startswith(whole):
                    state = self._state(local_run_path, name)
                    upload_file(self._filesystem, os.path.join(local_run_path, name), f"{self._run_path}/{name}")
                    self._uploaded[name] = state
            if whole is not None and any(name.startswith(whole) for name in changed):
                states = {name: self._state(local_run_path, name) for name in names if name.startswith(whole)}
                upload_folder(self._filesystem, checkpoint, f"{self._run_path}/{self._checkpoint_filename}")
                self._uploaded.update(states)

    @staticmethod
    def _state(folder: str, name: str) -> Tuple[int, int]:
        status = os.stat(os.path.join(folder, name))
        return status.st_size, status.st_mtime_ns
