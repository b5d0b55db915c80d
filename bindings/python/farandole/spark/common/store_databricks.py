"""A store on the filesystem of Databricks (DBFS), which every node mounts at ``/dbfs``."""

from __future__ import annotations

import os
import tempfile
from typing import Any, Optional

from farandole.spark.common.store_fsspec import FilesystemStore

_PREFIXES = ("file:///dbfs/", "dbfs:///", "dbfs:/", "/dbfs/")


class DBFSLocalStore(FilesystemStore):
    """A store in a folder of DBFS: ``dbfs:/folder``, ``/dbfs/folder`` or ``file:///dbfs/folder``.

    It uses the mounted folder ``/dbfs/folder``, in which files cannot be written in random order. Its checkpoints of
    Keras are weights, named ``checkpoint.tf``. The other arguments are those of ``FilesystemStore``.
    """

    def __init__(self, prefix_path: str, *args: Any, **kwargs: Any) -> None:
        if len(args) < 7:
            kwargs.setdefault("checkpoint_filename", "checkpoint.tf")
        super().__init__(self.normalize_path(prefix_path), *args, **kwargs)

    @classmethod
    def matches_dbfs(cls, path: str) -> bool:
        """Whether the path is one of DBFS."""
        return path.startswith(_PREFIXES)

    @staticmethod
    def normalize_path(path: str) -> str:
        """The path below the mounted folder ``/dbfs``.

        :raises ValueError: it is not a path of DBFS
        """
        for prefix in _PREFIXES:
            if path.startswith(prefix):
                return f"/dbfs/{path[len(prefix) :]}"
        raise ValueError(f"{path} is not a path of DBFS: write dbfs:/folder, /dbfs/folder or file:///dbfs/folder")

    def exists(self, path: str) -> bool:
        return super().exists(self.normalize_path(path))

    def get_localized_path(self, path: str) -> str:
        return self.normalize_path(path)

    def get_full_path(self, path: str) -> str:
        return f"file://{self.normalize_path(path)}"

    def get_checkpoint_filename(self) -> str:
        return super().get_checkpoint_filename()

    def read_serialized_keras_model(self, ckpt_path: str, model: Any, custom_objects: Optional[dict]) -> str:
        """Loads the checkpoint's weights into the model and saves the model to a local file.

        :return: the content of the file, encoded by ``codec.dumps_base64``
        """
        from farandole.runner.common.util import codec

        keras = _keras_of(model)
        with tempfile.TemporaryDirectory(prefix="farandole-model-") as folder:
            path = os.path.join(folder, "model.keras")
            with keras.utils.custom_object_scope(custom_objects or {}):
                model.load_weights(self.get_localized_path(ckpt_path))
                model.save(path)
            with open(path, "rb") as file:
                return str(codec.dumps_base64(file.read()))


def _keras_of(model: Any) -> Any:
    """The package that the model's class comes from: keras, tf_keras or tensorflow's."""
    import importlib

    packages = [base.__module__.partition(".")[0] for base in type(model).__mro__]
    return importlib.import_module(next((each for each in packages if each in ("keras", "tf_keras")), "keras"))
