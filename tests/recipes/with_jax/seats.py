"""One process, and a rank of a job."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import horovod.jax as hvd
import jax
import optax
from recipe import Recipe
from seats import Seat


class JaxSeat(Seat):
    """A rank of a job, or one process that does what the job does: it takes the batches of all passes of a step as one,
    and the factor of its loss is the sum over ranks and passes."""

    def batches(self, rows: Any) -> List[Any]:
        """The batches of a step, whose rows have the shape (passes, rows of all ranks, …)."""
        if self.is_in_job:
            return list(rows[:, self.equal_parts(rows.shape[1])[self.rank]])
        return [rows.reshape(-1, *rows.shape[2:])]

    def factor(self, recipe: Recipe) -> float:
        passes = 1 if recipe.averages_passes else recipe.passes
        return 1.0 if self.is_in_job else float(passes * (self.size if recipe.op == "Sum" else 1))

    def wrap(self, recipe: Recipe, optimizer: Any, place: str, name: str = "") -> Any:
        if not self.is_in_job or recipe.reduction != place:
            return optax.with_extra_args_support(optimizer)
        options: Dict[str, Any] = {"average_aggregated_gradients": recipe.averages_passes}
        for each in recipe.wrapping:
            options.update(WRAPPING[each])
        op, passes = getattr(hvd, recipe.op), recipe.passes
        return hvd.DistributedOptimizer(optimizer, name, op=op, backward_passes_per_step=passes, **options)

    def reduced(self, recipe: Recipe, gradients: Any) -> Any:
        """The gradients, reduced if the script does so by hand."""
        op = getattr(hvd, recipe.op)
        if self.is_in_job and recipe.reduction == "each":
            return jax.tree.map(lambda each: hvd.allreduce(each, op=op), gradients)
        if not self.is_in_job or recipe.reduction != "grouped":
            return gradients
        leaves, tree = jax.tree.flatten(gradients)
        return jax.tree.unflatten(tree, hvd.grouped_allreduce(leaves, op=op))

    def mean(self, value: Any, name: str) -> Any:
        return hvd.allreduce(value, name=name) if self.is_in_job else value

    def equal(self, recipe: Recipe, values: Any) -> Any:
        """The values of the root."""
        return STARTS[recipe.start](values, self.root(recipe)) if self.is_in_job and recipe.start else values


class Member(JaxSeat):
    """This rank of an elastic job, whose state makes the ranks equal."""

    def __init__(self) -> None:
        super().__init__(hvd.size(), hvd.rank())

    def find(self) -> None:
        """Members may have changed."""
        self.take(hvd.size(), hvd.rank())

    def factor(self, recipe: Recipe) -> float:
        """Of a sum, each rank computes its part of the mean, so that the number of ranks does not matter."""
        return 1 / self.size if recipe.op == "Sum" else 1.0

    def equal(self, recipe: Recipe, values: Any) -> Any:
        return values


def _synchronized(values: Any, root: int) -> Any:
    state = hvd.elastic.JaxState(values=values)
    state.sync()
    return state.values


STARTS: Dict[str, Callable[[Any, int], Any]] = {
    "parameters": hvd.broadcast_parameters,
    "traced": jax.jit(hvd.broadcast_parameters, static_argnums=1),
    "object": hvd.broadcast_object,
    "state": _synchronized,
}
WRAPPING: Dict[str, Dict[str, Any]] = {
    "group_2": {"groups": 2},
    "group_9": {"groups": 9},
    "predivide": {"gradient_predivide_factor": 2.0},
    "fp16": {"compression": hvd.Compression.fp16},
}
