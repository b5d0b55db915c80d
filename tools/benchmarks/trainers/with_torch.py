"""PyTorch: under Farandole or Horovod, or as DistributedDataParallel over Gloo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.trainers import CLASSES, IMAGE, OPERATION_ELEMENTS, OPERATIONS, Trainer, Way


class TorchTrainer(Trainer):
    """Plain steps of SGD."""

    def load(self) -> None:
        import torch

        torch.set_num_threads(self.way.threads)
        self.torch: Any = torch
        self.hvd: Any = None
        if self.way.name in ("farandole", "horovod", "joined"):
            import horovod.torch as hvd

            self.hvd = hvd

    def join(self) -> None:
        torch = self.torch
        if self.hvd is not None:
            self.hvd.init()
        elif self.way.name == "own" and not torch.distributed.is_initialized():
            torch.distributed.init_process_group("gloo")
        torch.manual_seed(1)
        self.model = _network(torch, self.way.widths).to(self.way.device)
        self.images = torch.randn(self.way.batch, 3, IMAGE, IMAGE).to(self.way.device)
        self.labels = torch.randint(CLASSES, (self.way.batch,)).to(self.way.device)
        self.optimizer: Any = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        if self.way.name in ("farandole", "horovod"):
            self.hvd.broadcast_parameters(self.model.state_dict(), root_rank=0)
            named = list(self.model.named_parameters())
            self.optimizer = self.hvd.DistributedOptimizer(self.optimizer, named_parameters=named)
        elif self.way.name == "own":
            self.model = torch.nn.parallel.DistributedDataParallel(self.model)

    def steps(self, count: int) -> float:
        loss = None
        for _ in range(count):
            self.optimizer.zero_grad()
            with self.torch.autocast(self.way.device, self.torch.bfloat16, enabled=self.way.is_bfloat16):
                loss = self.torch.nn.functional.cross_entropy(self.model(self.images), self.labels)
            loss.backward()
            self.optimizer.step()
        return 0.0 if loss is None else float(loss.detach())

    def operations(self, kind: str) -> tuple[Callable[[], None], Callable[[], None]]:
        hvd = self.hvd
        many = [(self.torch.ones(OPERATION_ELEMENTS), f"many.{each}") for each in range(OPERATIONS)]
        one = self.torch.ones(OPERATION_ELEMENTS * OPERATIONS)

        def in_flight() -> None:
            handles = [hvd.allreduce_async_(tensor, name=name, op=hvd.Max) for tensor, name in many]
            for handle in handles:
                hvd.synchronize(handle)

        return in_flight, lambda: hvd.allreduce_(one, name="one", op=hvd.Max)

    def leave(self) -> None:
        if self.hvd is not None:
            self.hvd.shutdown()
        elif self.way.name == "own":
            self.torch.distributed.destroy_process_group()


def _network(torch: Any, widths: tuple[int, ...]) -> Any:
    nn: Any = torch.nn

    class Block(nn.Module):
        def __init__(self, before: int, width: int, stride: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(before, width, 3, stride, 1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(),
                nn.Conv2d(width, width, 3, 1, 1, bias=False),
                nn.BatchNorm2d(width),
            )
            self.around = nn.Conv2d(before, width, 1, stride, bias=False)

        def forward(self, x: Any) -> Any:
            return torch.relu(self.body(x) + self.around(x))

    layers = [nn.Conv2d(3, widths[0], 3, 1, 1, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU()]
    before = widths[0]
    for stage, width in enumerate(widths):
        layers.append(Block(before, width, 2 if stage else 1))
        before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, CLASSES))


def made(way: Way) -> Trainer:
    """The trainer of this framework."""
    return TorchTrainer(way)
