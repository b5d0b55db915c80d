"""Where a recipe is played: in one process on the whole batch, or on a rank of a job on its part."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Dict

import horovod.mxnet as hvd
import mxnet as mx

from with_mxnet.recipe import ROWS, Recipe


class OneProcess:
    """Plays what a job of this many ranks does together."""

    is_in_job, rank, is_last = False, 0, True

    def __init__(self, size: int) -> None:
        self.size = size

    def rows(self, recipe: Recipe) -> slice:
        """Those of this seat in a batch."""
        return slice(0, ROWS)

    def trainer(self, recipe: Recipe, params: Any, options: Dict[str, Any], divisor: float, name: str) -> Any:
        """One that divides gradients by this number."""
        return mx.gluon.Trainer(params, recipe.optimizer, options, kvstore=None)

    def average(self, value: float) -> float:
        return value

    def root(self, recipe: Recipe) -> int:
        """The rank that broadcasts."""
        return 0

    def broadcast(self, recipe: Recipe, value: Any) -> Any:
        """Parameters, in place, or another value."""
        return value


class Rank(OneProcess):
    """This rank of the job."""

    is_in_job = True

    def __init__(self) -> None:
        super().__init__(hvd.size())
        self.rank = hvd.rank()
        self.is_last = self.rank + 1 == self.size

    def rows(self, recipe: Recipe) -> slice:
        part = ROWS // self.size
        return slice(0, ROWS) if recipe.is_alone else slice(self.rank * part, (self.rank + 1) * part)

    def trainer(self, recipe: Recipe, params: Any, options: Dict[str, Any], divisor: float, name: str) -> Any:
        wrapping: Dict[str, Any] = {"process_set": own_sets()[self.rank]} if recipe.is_alone else {}
        for each in recipe.wrapping:
            wrapping.update(WRAPPING[each])
        if recipe.is_wrapped:
            optimizer = mx.optimizer.create(recipe.optimizer, rescale_grad=1 / divisor, **options)
            return mx.gluon.Trainer(params, hvd.DistributedOptimizer(optimizer, **wrapping), kvstore=None)
        return hvd.DistributedTrainer(params, recipe.optimizer, options, prefix=name, **wrapping)

    def average(self, value: float) -> float:
        return float(hvd.allreduce(mx.nd.array([value], dtype="float64"), name="metric").asnumpy()[0])

    def root(self, recipe: Recipe) -> int:
        return self.size - 1 if recipe.is_from_last else 0

    def broadcast(self, recipe: Recipe, value: Any) -> Any:
        is_object = isinstance(value, bytes)
        return (hvd.broadcast_object if is_object else hvd.broadcast_parameters)(value, self.root(recipe))


@lru_cache
def own_sets() -> Any:
    """A process set for each rank alone."""
    return [hvd.add_process_set([each]) for each in range(hvd.size())]


WRAPPING: Dict[str, Dict[str, Any]] = {
    "group_1": {"num_groups": 1},
    "group_2": {"num_groups": 2},
    "predivide": {"gradient_predivide_factor": 2.0},
    "fp16": {"compression": hvd.Compression.fp16},
    "bf16": {"compression": hvd.Compression.bf16},
}
