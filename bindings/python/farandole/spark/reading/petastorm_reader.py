"""Reads by the package petastorm, for ``reader_pool_type="petastorm"``.

petastorm gives whole row groups to ranks, so ranks have different numbers of rows, and each needs a row group.
"""

from __future__ import annotations

import itertools
from typing import Any, Dict, Iterator, Optional


class PetastormLoader:
    """Batches of tensors from petastorm's own reader and loader. Each iteration is an epoch.

    :param module: the data module with the paths, batch sizes and columns
    :param steps: the number of batches of an iteration, which continues after the one before; None for each row once
    :raises ImportError: petastorm is not installed, or cannot be used with the other packages
    """

    def __init__(
        self, module: Any, is_training: bool, seed: int, worker_count: int, steps: Optional[int] = None
    ) -> None:
        try:
            import petastorm
            import petastorm.pytorch
            from petastorm.transform import TransformSpec
        except ImportError as problem:
            raise ImportError(
                f"reader_pool_type='petastorm' needs the package petastorm ({problem}): pip install petastorm==0.12.1, "
                "with the versions of PyArrow that it supports; or use 'thread', which reads by PyArrow"
            ) from problem
        self._petastorm = petastorm
        self._batch_size = module.train_batch_size if is_training else module.val_batch_size
        self._url = module.train_dir if is_training else module.val_dir
        self._seed = seed
        self._epoch = 0
        self._steps = steps
        self._endless: Optional[Iterator[Any]] = None
        self._shuffle = bool(module.shuffle and is_training)
        self._arguments: Dict[str, Any] = {
            "schema_fields": module.schema_fields,
            "cur_shard": module.cur_shard,
            "shard_count": module.shard_count,
            "num_epochs": 1,
            "reader_pool_type": "thread",
            "workers_count": worker_count,
            "shuffle_row_groups": self._shuffle,
            "storage_options": module.storage_options,
        }
        if module.transform_fn:
            self._arguments["transform_spec"] = TransformSpec(
                module.transform_fn,
                edit_fields=module.transformation_edit_fields,
                removed_fields=module.transformation_removed_fields,
            )

    def __iter__(self) -> Iterator[Any]:
        if self._steps is None:
            return self._batches()
        if self._endless is None:
            self._endless = itertools.chain.from_iterable(self._batches() for _ in itertools.count())
        return itertools.islice(self._endless, self._steps)

    def __len__(self) -> int:
        """The number of batches of an iteration; without one, ``TypeError``: petastorm does not count its rows."""
        if self._steps is None:
            raise TypeError("a loader of petastorm has no length unless a number of steps is given")
        return self._steps

    def _batches(self) -> Iterator[Any]:
        epoch, self._epoch = self._epoch, self._epoch + 1
        with self._petastorm.make_batch_reader(self._url, seed=self._seed + epoch, **self._arguments) as reader:
            capacity = 10 * self._batch_size if self._shuffle else 0
            yield from self._petastorm.pytorch.BatchedDataLoader(
                reader, batch_size=self._batch_size, shuffling_queue_capacity=capacity
            )
