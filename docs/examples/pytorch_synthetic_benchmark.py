"""Measures how fast a ResNet trains on made-up images: what communication costs, without what reading data costs.

horovodrun -np 2 python docs/examples/pytorch_synthetic_benchmark.py --batch-size 8 --num-iters 3
"""

import argparse
import statistics
import time

import horovod.torch as hvd
import torch
import torch.nn.functional as F
from torch import nn

DEPTHS = {"resnet18": (2, 2, 2, 2), "resnet50": (3, 4, 6, 3)}


def arguments():
    parser = argparse.ArgumentParser(
        description="PyTorch synthetic benchmark", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--fp16-allreduce", action="store_true", help="let gradients travel in half precision")
    parser.add_argument("--model", choices=list(DEPTHS), default="resnet50")
    parser.add_argument("--image-size", type=int, default=224, help="width and height in pixels")
    parser.add_argument("--batch-size", type=int, default=32, help="images per worker and step")
    parser.add_argument("--num-warmup-batches", type=int, default=10, help="steps that are not counted")
    parser.add_argument("--num-batches-per-iter", type=int, default=10, help="steps in one measurement")
    parser.add_argument("--num-iters", type=int, default=10, help="measurements")
    parser.add_argument("--no-cuda", action="store_true", help="stay on the CPU")
    parser.add_argument("--use-adasum", action="store_true", help="combine steps with Adasum")
    return parser.parse_args()


class Block(nn.Module):
    """Two or three convolutions, and a way around them."""

    def __init__(self, before, width, stride, expansion):
        super().__init__()
        after = width * expansion
        sizes = [(before, width, 1, 1), (width, width, 3, stride), (width, after, 1, 1)]
        if expansion == 1:
            sizes = [(before, width, 3, stride), (width, after, 3, 1)]
        layers = [each for size in sizes for each in (*self.layer(*size), nn.ReLU())]
        self.body = nn.Sequential(*layers[:-1])
        around = self.layer(before, after, 1, stride) if stride != 1 or before != after else []
        self.around = nn.Sequential(*around)

    @staticmethod
    def layer(before, after, size, stride):
        return nn.Conv2d(before, after, size, stride, size // 2, bias=False), nn.BatchNorm2d(after)

    def forward(self, x):
        return F.relu(self.body(x) + self.around(x))


def resnet(name):
    expansion, before, blocks = (4 if name == "resnet50" else 1), 64, []
    for stage, depth in enumerate(DEPTHS[name]):
        for index in range(depth):
            width = 64 << stage
            blocks.append(Block(before, width, 2 if stage and not index else 1, expansion))
            before = width * expansion
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 1000))


def distributed(model, args):
    # Adasum combines steps: more workers need no larger ones.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * (1 if args.use_adasum else hvd.size()))
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none,
        op=hvd.Adasum if args.use_adasum else hvd.Average,
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    return optimizer


def main():
    args = arguments()
    hvd.init()
    cuda = not args.no_cuda and torch.cuda.is_available()
    device = torch.device("cuda", hvd.local_rank()) if cuda else torch.device("cpu")
    model = resnet(args.model).to(device)
    optimizer = distributed(model, args)
    images = torch.randn(args.batch_size, 3, args.image_size, args.image_size, device=device)
    labels = torch.randint(1000, (args.batch_size,), device=device)

    def steps(count):
        for _ in range(count):
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
        if cuda:
            torch.cuda.synchronize()

    def say(text):
        if hvd.rank() == 0:
            print(text, flush=True)

    say(f"Model: {args.model}\nBatch size: {args.batch_size}\nNumber of {'GPU' if cuda else 'CPU'}s: {hvd.size()}")
    steps(args.num_warmup_batches)
    speeds = []
    for number in range(args.num_iters):
        begin = time.perf_counter()
        steps(args.num_batches_per_iter)
        speeds.append(args.batch_size * args.num_batches_per_iter / (time.perf_counter() - begin))
        say(f"Iter #{number}: {speeds[-1]:.1f} img/sec per worker")
    mean, spread = statistics.fmean(speeds), 1.96 * statistics.pstdev(speeds)
    say(f"Img/sec per worker: {mean:.1f} +-{spread:.1f}")
    say(f"Total img/sec on {hvd.size()} worker(s): {hvd.size() * mean:.1f} +-{hvd.size() * spread:.1f}")


if __name__ == "__main__":
    main()
