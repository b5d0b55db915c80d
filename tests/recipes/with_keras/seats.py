"""One process, and a rank of a job."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

import numpy as np
from faults import gradient_factor
from seats import Seat

from with_keras.recipe import Recipe
from with_keras.versions import array_of, change_gradients, count_batches, floatx, hvd, keras


class OneProcess(Seat):
    """Plays what a job of this many ranks does together. It takes the batches of all passes of a step as one."""

    def passes(self, recipe: Recipe) -> int:
        """The number of batches between two steps."""
        return 1

    def part(self, recipe: Recipe, rows: Any) -> Any:
        """The rows of an epoch, which have the shape (steps, passes, ranks, rows of a rank, …)."""
        return rows.reshape(-1, *rows.shape[4:])

    def factor(self, recipe: Recipe) -> float:
        """The factor of the loss: the sum over ranks and passes, of which each has the mean of its part."""
        passes = 1 if recipe.averages_passes else recipe.passes
        return float(passes * (self.size if recipe.op == "Sum" else 1))

    def sync_batch_norm(self, name: str) -> Any:
        return keras.layers.BatchNormalization(name=name)

    def wrap(self, recipe: Recipe, optimizer: Any) -> Any:
        if "as_dense" in recipe.wrapping:
            change_gradients(optimizer, dense)
        count_batches(optimizer, recipe.passes)
        return optimizer

    def make_equal(self, recipe: Recipe, model: Any) -> None:
        """Gives all ranks the weights of the root, before the first step."""

    def callbacks(self, recipe: Recipe) -> List[Any]:
        return []

    def average(self, value: float) -> float:
        return value

    def load_model(self, path: str) -> Any:
        return keras.models.load_model(path)

    def elastic_state(self, model: Any) -> Optional[Any]:
        """What saves and restores the model; None where a script does so itself."""
        return None


class Rank(OneProcess):
    """This rank of the job."""

    def __init__(self) -> None:
        super().__init__(hvd.size(), hvd.rank())

    def passes(self, recipe: Recipe) -> int:
        return recipe.passes

    def part(self, recipe: Recipe, rows: Any) -> Any:
        return super().part(recipe, rows[:, :, self.rank : self.rank + 1])

    def factor(self, recipe: Recipe) -> float:
        return gradient_factor(recipe, self)

    def sync_batch_norm(self, name: str) -> Any:
        import horovod.tensorflow

        return horovod.tensorflow.SyncBatchNormalization(name=name)

    def wrap(self, recipe: Recipe, optimizer: Any) -> Any:
        options: Dict[str, Any] = {"op": getattr(hvd, recipe.op)}
        if recipe.passes > 1:
            options["backward_passes_per_step"] = recipe.passes
            options["average_aggregated_gradients"] = recipe.averages_passes
        for name in recipe.wrapping:
            options.update(WRAPPING[name]())
        partial = "partial" in recipe.wrapping
        return (hvd.PartialDistributedOptimizer if partial else hvd.DistributedOptimizer)(optimizer, **options)

    def make_equal(self, recipe: Recipe, model: Any) -> None:
        if recipe.start == "state":
            hvd.elastic.KerasState(model).sync()
        elif recipe.start == "variables":
            for place, each in enumerate(model.variables):
                value = array_of(each)
                each.assign(hvd.broadcast(value, self.root(recipe), name=f"start.{place}"))

    def callbacks(self, recipe: Recipe) -> List[Any]:
        made = hvd.callbacks
        return [made.BroadcastGlobalVariablesCallback(self.root(recipe)), made.MetricAverageCallback()]

    def average(self, value: float) -> float:
        return float(hvd.allreduce(np.array(value), name="metric"))

    def load_model(self, path: str) -> Any:
        return hvd.load_model(path)

    def elastic_state(self, model: Any) -> Any:
        return hvd.elastic.KerasState(model)


class Member(Rank):
    """This rank of an elastic job, whose state makes the ranks equal."""

    def find(self) -> None:
        """Members may have changed."""
        self.take(hvd.size(), hvd.rank())

    def factor(self, recipe: Recipe) -> Any:
        """The number of the members whose sum it is may change."""
        import horovod.tensorflow
        import tensorflow as tf

        size = horovod.tensorflow.size_op() if recipe.op == "Sum" else 1
        return super().factor(recipe) / tf.cast(size, floatx())

    def make_equal(self, recipe: Recipe, model: Any) -> None:
        pass

    def callbacks(self, recipe: Recipe) -> List[Any]:
        return [hvd.callbacks.MetricAverageCallback()]


def dense(gradient: Any) -> Any:
    """A tensor in the place of `IndexedSlices`."""
    if not hasattr(gradient, "dense_shape"):
        return gradient
    import tensorflow as tf

    return tf.convert_to_tensor(gradient)


LOSSY = ("fp16",)
WRAPPING: Dict[str, Callable[[], Dict[str, Any]]] = {
    "named": lambda: {"name": "its.own/name"},
    "partial": lambda: {},
    "group_1": lambda: {"groups": 1},
    "group_2": lambda: {"groups": 2},
    "predivide": lambda: {"gradient_predivide_factor": 2.0},
    "as_dense": lambda: {"sparse_as_dense": True},
    "fp16": lambda: {"compression": hvd.Compression.fp16},
}
