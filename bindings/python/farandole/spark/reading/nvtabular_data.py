"""The parts of the data modules on NVTabular that do not depend on the framework."""

from __future__ import annotations

import importlib
from abc import abstractmethod
from types import ModuleType
from typing import Any, Dict, List

from farandole.spark.common.datamodule import DataModule


class NVTabularData(DataModule):
    """Reads Parquet data by NVTabular, on the GPU.

    :ivar framework: NVTabular's name of the framework
    :param label_cols: the label columns
    :param categorical_cols: the feature columns of integers that are categories
    :param continuous_cols: the feature columns of numbers
    :param kwargs: the arguments of ``DataModule``
    :raises ImportError: NVTabular is not installed
    """

    short_name = "nvtabular"
    framework: str

    def __init__(
        self,
        label_cols: List[str] = [],  # noqa: B006  (part of the interface; never modified)
        categorical_cols: List[str] = [],  # noqa: B006
        continuous_cols: List[str] = [],  # noqa: B006
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._loaders = require_nvtabular(self.framework)
        self.label_cols = list(label_cols)
        self.categorical_cols = list(categorical_cols)
        self.continuous_cols = list(continuous_cols)

    def train_data(self) -> Any:
        """A loader of the rows to train on."""
        return self._loader(True)

    def val_data(self) -> Any:
        """A loader of the rows to validate with; None if there are none."""
        return self._loader(False) if self.has_val else None

    @abstractmethod
    def _loader(self, is_training: bool) -> Any:
        """A loader of the framework."""

    def _dataset(self, is_training: bool) -> Any:
        """NVTabular's data set of the files to train on, or to validate with."""
        import nvtabular

        path = self.train_dir if is_training else self.val_dir
        return nvtabular.Dataset(path, engine="parquet", storage_options=self.storage_options or {})

    def _arguments(self, is_training: bool) -> Dict[str, Any]:
        """The arguments that the loaders of all frameworks have."""
        return {
            "batch_size": self.train_batch_size if is_training else self.val_batch_size,
            "shuffle": self.shuffle and is_training,
            "global_size": self.shard_count,
            "global_rank": self.cur_shard,
        }


def require_nvtabular(framework: str) -> ModuleType:
    """The module of NVTabular's loaders for a framework, ``torch`` or ``tensorflow``.

    :raises ImportError: NVTabular is not installed
    """
    try:
        return importlib.import_module(f"nvtabular.loader.{framework}")
    except ImportError as problem:
        raise ImportError(
            f"NVTabularDataModule needs the package nvtabular for {framework} ({problem}): pip install nvtabular, or "
            "use PetastormDataModule, which reads by PyArrow"
        ) from problem


def common_seed(rank: int, broadcast_object: Any) -> int:
    """A random seed, the same on all ranks: NVTabular calls this before each epoch."""
    import secrets

    return int(broadcast_object(secrets.randbelow(1 << 31) if rank == 0 else None, 0))
