"""What the seats of all frameworks have. `with_NAME/seats.py` derives from it."""

from __future__ import annotations

import math
from typing import Any, Optional

import numpy as np


class Seat:
    """Where a recipe is played: in one process on the whole batch, or on a rank of a job on its part. Both seats of a
    framework have the same methods, so that both play the same loop.

    :param size: the number of ranks, of which one process does what they do together
    :param rank: None for one process
    """

    def __init__(self, size: int, rank: Optional[int] = None) -> None:
        self.is_in_job = rank is not None
        self.take(size, rank or 0)

    def take(self, size: int, rank: int) -> None:
        """The members of a job change these numbers."""
        self.size, self.rank = size, rank
        self.is_last = not self.is_in_job or rank + 1 == size

    def equal_parts(self, count: int) -> Any:
        """Divides a batch of ``count`` rows among the ranks: the numbers of the rows, as an array (ranks, rows). An
        elastic job may have a number of ranks that does not divide the batch. Then the ranks together have every row
        several times, and all rows equally often, so that the mean over the ranks remains that over the batch."""
        times = self.size // math.gcd(count, self.size)
        return np.arange(count).repeat(times).reshape(self.size, -1)

    def root(self, recipe: Any) -> int:
        """The rank whose weights and states all ranks get."""
        return self.size - 1 if self.is_in_job and recipe.is_from_last else 0
