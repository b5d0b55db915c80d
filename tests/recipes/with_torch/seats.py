"""One process, and a rank of a job."""

from __future__ import annotations

import contextlib
import random
from typing import Any, Dict, Iterator, List, Sequence

import horovod.torch as hvd
import torch
from faults import GRADIENT_FAULTS, gradient_factor
from seats import Seat

from with_torch.optimizers import Named
from with_torch.recipe import EPOCH, ROWS, Recipe


class OneProcess(Seat):
    """Plays what a job of this many ranks does together."""

    def sampler(self, recipe: Recipe) -> Any:
        """What chooses the rows of an epoch, if the recipe has such."""
        return AllSamples(recipe.seed)

    def rows(self, recipe: Recipe, is_short: bool) -> List[int]:
        """The rows of the batch. A short batch lacks those of the rank that joins."""
        lacking = self.part(recipe, recipe.uneven % self.size) if is_short else ()
        return [row for row in range(ROWS) if row not in lacking]

    def part(self, recipe: Recipe, rank: int) -> range:
        """The rows of a rank."""

        def end(ranks: int) -> int:
            if recipe.is_skewed:  # a rank has more than the one before it
                return ROWS * ranks * (ranks + 1) // (self.size * (self.size + 1))
            return ROWS * ranks // self.size

        return range(end(rank), end(rank + 1))

    def share(self, recipe: Recipe, is_short: bool) -> float:
        """The factor of the mean loss of these rows: zeros stand for the gradients of a rank that has joined."""
        return len(self.rows(recipe, is_short)) / ROWS

    def factor(self, recipe: Recipe) -> float:
        """The factor of a gradient: the sum over ranks, of which each has the mean of its part."""
        return float(self.size) if recipe.op == "Sum" else 1.0

    def reduced_loss(self, recipe: Recipe, mean: torch.Tensor) -> torch.Tensor:
        """The loss whose gradients are the reduced ones, of the mean of the losses of all ranks."""
        return mean * self.factor(recipe)

    def has_joined(self, recipe: Recipe, is_short: bool) -> bool:
        return False

    def sync_batch_norm(self, width: int) -> torch.nn.Module:
        return torch.nn.BatchNorm1d(width)

    def wrap(self, recipe: Recipe, optimizer: Any, named: Named) -> Any:
        return optimizer

    def unwrap(self, optimizer: Any) -> None:
        pass

    def average(self, loss: torch.Tensor) -> torch.Tensor:
        return loss

    @contextlib.contextmanager
    def reduced(self, optimizers: Sequence[Any]) -> Iterator[None]:
        """Within this context, gradients are those of the whole batch."""
        yield

    def synchronize(self, optimizer: Any) -> None:
        pass

    def broadcast(self, recipe: Recipe, model: torch.nn.Module, optimizers: Sequence[Any]) -> None:
        pass

    def elastic_state(self, **values: Any) -> Any:
        """What saves and restores these values; None where a script does so itself."""
        return None

    def join(self, recipe: Recipe, model: torch.nn.Module, optimizers: Sequence[Any]) -> None:
        """Makes a rank that has joined equal to the others."""


class AllSamples:
    """The samples of a job's `ElasticSampler` for all ranks together."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.set_epoch(0)

    def set_epoch(self, epoch: int) -> None:
        self.epoch, self.processed_num = epoch, 0

    def record_batch(self, index: int, count: int) -> None:
        self.processed_num += count

    def state_dict(self) -> Dict[str, int]:
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def __iter__(self) -> Iterator[int]:
        samples = list(range(EPOCH))
        random.Random(self.seed + self.epoch).shuffle(samples)
        return iter(samples[self.processed_num :])


class Rank(OneProcess):
    """This rank of the job."""

    def __init__(self) -> None:
        super().__init__(hvd.size(), hvd.rank())

    def find(self) -> None:
        """Members may have changed."""
        self.take(hvd.size(), hvd.rank())

    def sampler(self, recipe: Recipe) -> Any:
        return hvd.elastic.ElasticSampler(range(EPOCH), seed=recipe.seed)

    def rows(self, recipe: Recipe, is_short: bool) -> List[int]:
        return [*self.part(recipe, self.rank)]

    def share(self, recipe: Recipe, is_short: bool) -> float:
        """Gradients are averaged over ranks, not over rows."""
        return self.size * super().share(recipe, is_short)

    def factor(self, recipe: Recipe) -> float:
        return 1.0

    def reduced_loss(self, recipe: Recipe, mean: torch.Tensor) -> torch.Tensor:
        return mean * self.factor(recipe) * (self.size if recipe.op == "Sum" else 1.0)

    def has_joined(self, recipe: Recipe, is_short: bool) -> bool:
        return is_short and self.rank == recipe.uneven % self.size

    def sync_batch_norm(self, width: int) -> torch.nn.Module:
        return hvd.SyncBatchNorm(width)

    def wrap(self, recipe: Recipe, optimizer: Any, named: Named) -> Any:
        options = wrapping_options(recipe, named)
        if recipe.fault in GRADIENT_FAULTS:
            options["compression"] = Faulty(gradient_factor(recipe, self))
        return hvd.DistributedOptimizer(optimizer, **options)

    def unwrap(self, optimizer: Any) -> None:
        optimizer.let_go()

    def average(self, loss: torch.Tensor) -> torch.Tensor:
        return hvd.allreduce(loss, name="metric")

    @contextlib.contextmanager
    def reduced(self, optimizers: Sequence[Any]) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for optimizer in optimizers:
                optimizer.synchronize()
                stack.enter_context(optimizer.skip_synchronize())
            yield

    def synchronize(self, optimizer: Any) -> None:
        optimizer.synchronize()

    def broadcast(self, recipe: Recipe, model: torch.nn.Module, optimizers: Sequence[Any]) -> None:
        self._broadcast_from(self.root(recipe), recipe, model, optimizers)

    def _broadcast_from(self, root: int, recipe: Recipe, model: torch.nn.Module, optimizers: Sequence[Any]) -> None:
        hvd.broadcast_parameters(model.state_dict(), root)
        for optimizer in optimizers:
            if recipe.optimizer != "LBFGS":  # its state cannot be broadcast
                hvd.broadcast_optimizer_state(optimizer, root)

    def elastic_state(self, **values: Any) -> Any:
        return hvd.elastic.TorchState(**values)

    def join(self, recipe: Recipe, model: torch.nn.Module, optimizers: Sequence[Any]) -> None:
        self._broadcast_from(hvd.join(), recipe, model, optimizers)


class Member(Rank):
    """This rank of an elastic job, whose state makes the ranks equal."""

    def factor(self, recipe: Recipe) -> float:
        """Of a sum, each rank computes its part of the mean, so that the number of ranks does not matter."""
        return 1 / self.size if recipe.op == "Sum" else 1.0

    def broadcast(self, recipe: Recipe, model: torch.nn.Module, optimizers: Sequence[Any]) -> None:
        pass


def wrapping_options(recipe: Recipe, named: Named) -> Dict[str, Any]:
    """The arguments of ``DistributedOptimizer``."""
    options: Dict[str, Any] = {"named_parameters": named, "op": getattr(hvd, recipe.op)}
    if recipe.passes > 1:
        options["backward_passes_per_step"] = recipe.passes
    for name in recipe.wrapping:
        options.update(_option(name, named))
    if "unnamed" in recipe.wrapping:
        del options["named_parameters"]
    return options


LOSSY = ("fp16", "bf16", "topk", "powersgd")
WRAPPING = (
    *("unnamed", "pairs", "group_1", "group_2", "group_lists", "predivide", "as_dense"),
    *("custom", "measured"),
    *LOSSY,
)


def _option(name: str, named: Named) -> Dict[str, Any]:
    if name == "group_lists":
        parameters = [each for _, each in named if each.requires_grad]
        return {"groups": [parameters[:2], parameters[2:3]]}
    made: Dict[str, Any] = {
        "group_1": {"groups": 1},
        "group_2": {"groups": 2},
        "predivide": {"gradient_predivide_factor": 2.0},
        "as_dense": {"sparse_as_dense": True},
        "fp16": {"compression": hvd.Compression.fp16},
        "bf16": {"compression": hvd.Compression.bf16},
    }
    if name in made or name in ("unnamed", "pairs"):
        return made.get(name, {})  # type: ignore[no-any-return]
    return {"compression": _compressor(name)}


class Halves:
    """A user's compressor that loses nothing."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> Any:
        return tensor * 0.5, None

    @staticmethod
    def decompress(tensor: torch.Tensor, context: None) -> torch.Tensor:
        return tensor * 2


class Faulty:
    """Multiplies gradients before they are reduced, and not back."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def compress(self, tensor: torch.Tensor) -> Any:
        return tensor * self.factor, None

    def decompress(self, tensor: torch.Tensor, context: None) -> torch.Tensor:
        return tensor


def _compressor(name: str) -> Any:
    return {
        "topk": lambda: hvd.Compression.topk(0.3, min_elements=1),
        "powersgd": lambda: hvd.Compression.powersgd(1, min_elements=1),
        "measured": lambda: hvd.Compression.measured(hvd.Compression.none),
        "custom": lambda: hvd.Compression.custom(Halves, min_elements=1),
    }[name]()
