"""What a training process needs to know of an estimator's fit: columns, batches, epochs and the store.

The driver makes the plan from the parameters of the estimator, and sends it to all ranks.
"""

from __future__ import annotations

import multiprocessing
import random
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence


@dataclass(frozen=True)
class Plan:
    """The training of one fit.

    :ivar remote_store: paths of the run and its data, and functions that copy to the store
    :ivar metadata: type and shape of each column
    :ivar rows: number of rows to train on and to validate with
    :ivar first_epoch: number of epochs that an earlier fit of this run has completed
    :ivar last_epoch: number of epochs of the run when this fit has completed
    :ivar params: the other parameters of the estimator, by name
    """

    run_id: str
    remote_store: Any
    metadata: Dict[str, Any]
    rows: Sequence[int]
    first_epoch: int
    last_epoch: int
    params: Dict[str, Any] = field(repr=False)

    def __getattr__(self, name: str) -> Any:
        # Only names that are no fields come here. While a plan is unpickled, its own attributes do too.
        params = self.__dict__.get("params")
        if params is None or name not in params:
            raise AttributeError(f"the plan of a fit has no parameter {name!r}")
        return params[name]

    @property
    def has_validation(self) -> bool:
        """Whether each epoch ends with a validation."""
        return bool(self.rows[1]) and self.remote_store.val_data_path is not None

    @property
    def columns(self) -> List[str]:
        """The columns to read."""
        weights = [self.sample_weight_col] if self.sample_weight_col else []
        return list(dict.fromkeys([*self.feature_cols, *self.label_cols, *weights]))

    def data_arguments(self, rank: int, size: int) -> Dict[str, Any]:
        """The arguments of the data module of a rank."""
        return {
            "train_dir": self.remote_store.train_data_path,
            "val_dir": self.remote_store.val_data_path,
            "num_train_epochs": self.last_epoch - self.first_epoch,
            "has_val": self.has_validation,
            "train_batch_size": self.batch_size,
            "val_batch_size": self.val_batch_size,
            "shuffle": self.shuffle,
            "transform_fn": self.transformation_fn,
            "transformation_edit_fields": self.transformation_edit_fields,
            "transformation_removed_fields": self.transformation_removed_fields,
            "inmemory_cache_all": self.inmemory_cache_all,
            "cur_shard": rank,
            "shard_count": size,
            "schema_fields": self.columns,
            "storage_options": getattr(self.remote_store, "storage_options", None),
            "steps_per_epoch_train": self.train_steps_per_epoch,
            "steps_per_epoch_val": self.validation_steps_per_epoch,
            "verbose": self.verbose > 1,
            "random_seed": self.random_seed or 0,
            "reader_pool_type": self.reader_pool_type,
            "train_reader_worker_count": self.train_reader_num_workers,
            "val_reader_worker_count": self.val_reader_num_workers,
            "label_cols": self.label_cols,
            "continuous_cols": self.continuous_cols or [],
            "categorical_cols": self.categorical_cols or [],
        }

    def start_process(self, rank: int, seed_framework: Callable[[int], Any]) -> None:
        """Sets how this process starts others, and seeds the generators of Python, NumPy and the framework. Each rank
        has its own seed, so that dropout differs between ranks."""
        if self.mp_start_method is not None:
            multiprocessing.set_start_method(self.mp_start_method, force=True)
        if self.random_seed is not None:
            import numpy

            seed = self.random_seed + rank
            random.seed(seed)
            numpy.random.seed(seed % 2**32)
            seed_framework(seed)

    def gpu_of(self, local_rank: int, gpus: int) -> Optional[int]:
        """The index of the GPU for this process: the one that Spark has assigned, or that of the local rank; None to
        train on the CPU.

        :param gpus: number of GPUs that the framework sees
        """
        if not self.use_gpu or not gpus:
            return None
        from farandole.spark.task import get_available_devices

        assigned = get_available_devices()
        return (int(assigned[0]) if assigned else local_rank) % gpus


def check_devices(devices: Sequence[str]) -> None:
    """``ValueError`` unless all ranks train on one type of device.

    :param devices: the type of the device of each rank
    """
    if len(set(devices)) > 1:
        by_type = "; ".join(
            f"{each}: ranks {', '.join(str(rank) for rank, own in enumerate(devices) if own == each)}"
            for each in sorted(set(devices))
        )
        raise ValueError(
            f"some ranks would train on another type of device than others ({by_type}): set use_gpu=False, or give "
            "each process a GPU"
        )
