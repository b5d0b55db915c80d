"""A sampler that records the processed samples, so that an epoch can continue with other members."""

from __future__ import annotations

import math
import random
from typing import Any, Dict, Iterator, List, Sized

import torch.utils.data

from farandole.torch import mpi_ops


class ElasticSampler(torch.utils.data.Sampler):
    """Distributes the unprocessed samples of an epoch over all ranks.

    :param dataset: the data set to sample from
    :param shuffle: sample in a random order that depends on seed and epoch
    :param seed: must be the same on all ranks
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Starts an epoch. Call it at the end of the epoch before, not after a commit within an epoch."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Records that every rank has processed a batch of this size."""
        self.processed_num += batch_size * self.num_replicas

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Continues from a recorded position."""
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def state_dict(self) -> Dict[str, Any]:
        """The position: the epoch, and the number of its samples that were processed."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def reset(self) -> None:
        """Distributes the unprocessed samples again, over the current members."""
        self.num_replicas = mpi_ops.size()
        self.rank = mpi_ops.rank()
        indices = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(indices)
        self.remaining_indices = indices[self.processed_num :]
        self.num_samples = math.ceil(len(self.remaining_indices) / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        dealt: List[int] = list(self.remaining_indices)
        while dealt and len(dealt) < self.total_size:
            dealt += self.remaining_indices[: self.total_size - len(dealt)]
        return iter(dealt[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples
