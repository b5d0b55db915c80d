"""Trains the network of pytorch_mnist.py on real digits once with each compressor, and prints what it cost and gave.

    horovodrun -np 4 python docs/examples/compare_compression.py [--write]

With --write the table replaces the one in docs/guides/compression.md.
"""

import argparse
import sys
from pathlib import Path

import horovod.torch as hvd
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parent))

from custom_compression import Rounded, signs  # noqa: E402  (they lie beside this file)
from pytorch_mnist import Net, evaluate, load_digits  # noqa: E402

GUIDE = Path(__file__).parents[1] / "guides" / "compression.md"
BEGIN, END = "<!-- measured by docs/examples/compare_compression.py -->", "<!-- end -->"

COMPRESSORS = {
    "`none`": lambda: hvd.Compression.measured(hvd.Compression.none),
    "`fp16`": lambda: hvd.Compression.measured(hvd.Compression.fp16),
    "`bf16`": lambda: hvd.Compression.measured(hvd.Compression.bf16),
    "`powersgd(rank=4)`": lambda: hvd.Compression.powersgd(rank=4),
    "`powersgd(rank=1)`": lambda: hvd.Compression.powersgd(rank=1),
    "`topk(ratio=0.1)`": lambda: hvd.Compression.topk(ratio=0.1),
    "`topk(ratio=0.01)`": lambda: hvd.Compression.topk(ratio=0.01),
    "`custom(Rounded)`": lambda: hvd.Compression.custom(Rounded),
    "`custom(signs)`": lambda: hvd.Compression.custom(signs),
}


def parse_arguments():
    parser = argparse.ArgumentParser(description="the digits with each compressor")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=32, help="images per worker and step")
    parser.add_argument("--seeds", type=int, default=3, help="trainings whose accuracies are averaged")
    parser.add_argument("--write", action="store_true", help="put the table into docs/guides/compression.md")
    return parser.parse_args()


def train(compression, seed, training, epochs, batch_size):
    """The model that comes out, and how many steps it took."""
    torch.manual_seed(seed)
    model = Net()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.005 * hvd.size(), momentum=0.9),
        model.named_parameters(),
        compression=compression,
    )
    images, labels = training.tensors
    shuffle = torch.Generator().manual_seed(seed)  # the same on all workers
    torch.manual_seed(1000 * seed + hvd.rank())  # dropout differs
    per_step = batch_size * hvd.size()
    steps = 0
    for _ in range(epochs):
        order = torch.randperm(len(labels), generator=shuffle)
        for step in order.split(per_step):
            mine = step[hvd.rank() :: hvd.size()]
            if len(step) < per_step:
                continue
            optimizer.zero_grad()
            F.cross_entropy(model(images[mine]), labels[mine]).backward()
            optimizer.step()
            steps += 1
    return model, steps


def row(title, make, seeds, training, held_out, epochs, batch_size):
    """One line of the table."""
    accuracies, raw, sent, received = [], 0.0, 0.0, 0.0
    for seed in range(1, seeds + 1):
        compression = make()
        model, steps = train(compression, seed, training, epochs, batch_size)
        report = compression.bytes_on_wire()
        raw, sent, received = (number / steps for number in report)
        accuracies.append(evaluate(model, held_out))
    spread = f"{min(accuracies):.4f} to {max(accuracies):.4f}"
    mean = sum(accuracies) / len(accuracies)
    return f"| {title} | {sent:,.0f} | {raw / sent:.1f} | {received:,.0f} | {mean:.4f} | {spread} |"


def main():
    args = parse_arguments()
    hvd.init()
    torch.set_num_threads(1)
    training, held_out = load_digits(42)
    lines = [
        f"{hvd.size()} workers, {args.epochs} epochs over {len(training)} images, {args.seeds} seeds; bytes "
        "are those of one worker and one step.",
        "",
        "| compressor | bytes sent | times fewer | bytes received | accuracy, mean | accuracy, range |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for title, make in COMPRESSORS.items():
        lines.append(row(title, make, args.seeds, training, held_out, args.epochs, args.batch_size))
        if hvd.rank() == 0:
            print(lines[-1], flush=True)
    if hvd.rank() == 0 and args.write:
        before, _, rest = GUIDE.read_text().partition(BEGIN)
        after = rest.partition(END)[2]
        GUIDE.write_text("".join([before, BEGIN, "\n\n", "\n".join(lines), "\n\n", END, after]))


if __name__ == "__main__":
    main()
