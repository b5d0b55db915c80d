"""One process, and a rank of a job."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Dict

import horovod.mxnet as hvd
import mxnet as mx
from seats import Seat

from with_mxnet.recipe import ROWS, Recipe


class OneProcess(Seat):
    """Plays what a job of this many ranks does together."""

    def rows(self, recipe: Recipe) -> slice:
        """Those of this seat in a batch."""
        return slice(0, ROWS)

    def trainer(self, recipe: Recipe, params: Any, options: Dict[str, Any], divisor: float, name: str) -> Any:
        """One that divides gradients by this number."""
        return mx.gluon.Trainer(params, recipe.optimizer, options, kvstore=None)

    def average(self, value: float) -> float:
        return value

    def broadcast(self, recipe: Recipe, value: Any) -> Any:
        """Parameters, in place, or another value."""
        return value


class Rank(OneProcess):
    """This rank of the job."""

    def __init__(self) -> None:
        super().__init__(hvd.size(), hvd.rank())

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
