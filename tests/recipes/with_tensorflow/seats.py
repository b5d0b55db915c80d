"""One process, and a rank of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Sequence

import horovod.tensorflow as hvd
import keras
import tensorflow as tf
from farandole.tensorflow.gradient_aggregation_eager import LocalGradientAggregationHelperEager
from faults import gradient_factor
from seats import Seat

from with_tensorflow import resuming
from with_tensorflow.optimizers import Part
from with_tensorflow.recipe import Recipe

if TYPE_CHECKING:
    from with_tensorflow.training import Training

TAPES, BY_HAND = ("tape", "partial"), ("each", "grouped")


class OneProcess(Seat):
    """Plays what a job of this many ranks does together. It takes the batches of all passes of a step as one."""

    def present(self, recipe: Recipe, step: int) -> int:
        """The number of ranks that have a batch."""
        return self.size - int(recipe.joins and step + 1 == recipe.steps)

    def part(self, recipe: Recipe, step: int, rows: Any) -> Any:
        """The rows of a step, (passes, ranks, rows, …), in the shape (calls, passes of each, rows, …)."""
        return rows[:, : self.present(recipe, step)].reshape(1, 1, -1, *rows.shape[3:])

    def factors(self, recipe: Recipe, step: int) -> Any:
        """Of the loss, and of the term of the local variable: a job adds up ranks and passes, of which each has the
        mean of its part."""
        passes = 1 if recipe.averages_passes else recipe.passes
        ranks = self.size if recipe.op == "Sum" else 1
        return self.average(recipe, step, passes * ranks), passes / (self.size if recipe.local == "scaled" else 1)

    def average(self, recipe: Recipe, step: int, value: Any) -> Any:
        """The mean over all ranks, where one that is absent has 0."""
        return value * self.present(recipe, step) / self.size

    def sync_batch_norm(self, **options: Any) -> Any:
        return keras.layers.BatchNormalization(**options)

    def tape(self, training: Training, tape: Any) -> Any:
        return tape

    def wrap(self, training: Training, part: Part) -> Part:
        return part

    def make_equal(self, training: Training) -> None:
        """Gives all ranks the state of the root, before the first step."""

    def reduce(self, training: Training, gradients: Sequence[Any]) -> List[Any]:
        """By hand. In one process only what a rank does to slices."""
        return [*map(tf.convert_to_tensor, gradients)] if "as_dense" in training.recipe.wrapping else [*gradients]

    def aggregation(self, training: Training) -> Any:
        """Adds up the gradients of several calls."""


class Rank(OneProcess):
    """This rank of the job."""

    def __init__(self) -> None:
        super().__init__(hvd.size(), hvd.rank())

    def part(self, recipe: Recipe, step: int, rows: Any) -> Any:
        if self.rank >= self.present(recipe, step):
            return []
        return rows[:, self.rank][:, None] if is_called_in_each_pass(recipe) else rows[:, self.rank][None]

    def factors(self, recipe: Recipe, step: int) -> Any:
        return gradient_factor(recipe, self), 1.0

    def average(self, recipe: Recipe, step: int, value: Any) -> Any:
        return hvd.allreduce(value, name="metric")

    def sync_batch_norm(self, **options: Any) -> Any:
        return hvd.SyncBatchNormalization(**options)

    def _options(self, training: Training) -> Dict[str, Any]:
        options: Dict[str, Any] = {"op": getattr(hvd, training.recipe.op)}
        for name in training.recipe.wrapping:
            options.update(WRAPPING[name](training.trained))
        return {**options, "scale_local_gradients": False} if training.recipe.local == "unscaled" else options

    def tape(self, training: Training, tape: Any) -> Any:
        if training.recipe.way not in TAPES:
            return tape
        is_partial = training.recipe.way == "partial"
        wrap = hvd.PartialDistributedGradientTape if is_partial else hvd.DistributedGradientTape
        tape = wrap(tape, **self._options(training))
        if training.recipe.local:
            tape.register_local_source(training.trained["local"])
        return tape

    def wrap(self, training: Training, part: Part) -> Part:
        recipe, options = training.recipe, self._options(training)
        if recipe.way != "optimizer":
            return part
        if recipe.passes > 1:
            options["backward_passes_per_step"] = recipe.passes
            options["average_aggregated_gradients"] = recipe.averages_passes
        optimizer = hvd.DistributedOptimizer(part.optimizer, **options)
        if "local" in part.trained:
            optimizer.register_local_var(part.trained["local"])
        return part._replace(optimizer=optimizer)

    def make_equal(self, training: Training) -> None:
        if training.recipe.start:
            resuming.STARTS[training.recipe.start](training, self.root(training.recipe))

    def reduce(self, training: Training, gradients: Sequence[Any]) -> List[Any]:
        if training.recipe.way not in BY_HAND:
            return [*gradients]
        gradients, options = super().reduce(training, gradients), self._options(training)
        options = {name: each for name, each in options.items() if name in ("op", "compression")}
        if training.recipe.way == "grouped":
            return hvd.grouped_allreduce(gradients, name="gradients", **options)  # type: ignore[no-any-return]
        return [hvd.allreduce(each, name=f"gradient.{place}", **options) for place, each in enumerate(gradients)]

    def aggregation(self, training: Training) -> Any:
        recipe = training.recipe
        if recipe.passes == 1 or recipe.way == "optimizer" or not is_called_in_each_pass(recipe):
            return None
        options = recipe.passes, lambda gradients, _: self.reduce(training, gradients), True, recipe.averages_passes
        return LocalGradientAggregationHelperEager(*options)

    def root(self, recipe: Recipe) -> int:
        return self.size - 1 if recipe.is_from_last and recipe.start != "state" else 0


class Member(Rank):
    """This rank of an elastic job, whose state makes the ranks equal."""

    def find(self) -> None:
        """Members may have changed."""
        self.take(hvd.size(), hvd.rank())

    def factors(self, recipe: Recipe, step: int) -> Any:
        """A sum over ranks is made a mean by their number when the graph runs."""
        factor, of_local = super().factors(recipe, step)
        size = hvd.size_op() if recipe.op == "Sum" else 1
        return factor / tf.cast(size, recipe.dtype), of_local

    def make_equal(self, training: Training) -> None:
        pass


def is_called_in_each_pass(recipe: Recipe) -> bool:
    """Otherwise the script adds up the gradients of all passes itself."""
    return recipe.way == "optimizer" or (recipe.way in BY_HAND and recipe.mode != "graph")


LOSSY = ("fp16", "bf16")
WRAPPING: Dict[str, Callable[[Any], Dict[str, Any]]] = {
    "group_1": lambda _: {"groups": 1},
    "group_2": lambda _: {"groups": 2},
    "groups": lambda trained: {"groups": [[trained["first.kernel"], trained["head.bias"]], [trained["first.bias"]]]},
    "predivide": lambda _: {"gradient_predivide_factor": 2.0},
    "as_dense": lambda _: {"sparse_as_dense": True},
    "fp16": lambda _: {"compression": hvd.Compression.fp16},
    "bf16": lambda _: {"compression": hvd.Compression.bf16},
}
