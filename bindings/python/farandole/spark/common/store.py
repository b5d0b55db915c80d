"""Stores of prepared data and of the runs of estimators: ``Store.create(path)``."""

from __future__ import annotations

from farandole.spark.common.environment import is_databricks
from farandole.spark.common.store_base import RemoteStore, Store
from farandole.spark.common.store_databricks import DBFSLocalStore
from farandole.spark.common.store_files import StoreError
from farandole.spark.common.store_filesystem import AbstractFilesystemStore
from farandole.spark.common.store_fsspec import FilesystemStore, LocalStore
from farandole.spark.common.store_hdfs import HDFSStore

__all__ = [
    "AbstractFilesystemStore",
    "DBFSLocalStore",
    "FilesystemStore",
    "HDFSStore",
    "LocalStore",
    "RemoteStore",
    "Store",
    "StoreError",
]


def _class_for(path: str) -> type:
    if HDFSStore.matches(path):
        return HDFSStore
    return DBFSLocalStore if is_databricks() and DBFSLocalStore.matches_dbfs(path) else FilesystemStore


Store._class_for = staticmethod(_class_for)
