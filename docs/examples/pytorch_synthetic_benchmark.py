"""Measures how fast a model of torchvision trains on made-up images: what communication costs, without reading data.

horovodrun -np 2 python docs/examples/pytorch_synthetic_benchmark.py --batch-size 8 --num-iters 3
"""

import argparse
import statistics
import time

import horovod.torch as hvd
import torch
import torch.nn.functional as F
import torchvision


def argument_parser():
    parser = argparse.ArgumentParser(
        description="PyTorch synthetic benchmark", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--fp16-allreduce", action="store_true", help="let gradients travel in half precision")
    parser.add_argument("--model", default="resnet50", help="a classification model of torchvision.models")
    parser.add_argument("--image-size", type=int, default=224, help="width and height in pixels")
    parser.add_argument("--batch-size", type=int, default=32, help="images per worker and step")
    parser.add_argument("--num-warmup-batches", type=int, default=10, help="steps that are not counted")
    parser.add_argument("--num-batches-per-iter", type=int, default=10, help="steps in one measurement")
    parser.add_argument("--num-iters", type=int, default=10, help="measurements")
    parser.add_argument("--no-cuda", action="store_true", help="stay on the CPU")
    parser.add_argument("--use-adasum", action="store_true", help="combine steps with Adasum")
    return parser


def rate(args):
    """Adasum combines steps: more workers need no larger ones."""
    return 0.01 * (1 if args.use_adasum else hvd.size())


def model_and_optimizer(args, device):
    model = torchvision.models.get_model(args.model).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate(args))
    return model, hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none,
        op=hvd.Adasum if args.use_adasum else hvd.Average,
    )


def batch(args, device):
    """Images and labels, others on each worker."""
    generator = torch.Generator().manual_seed(hvd.rank())
    images = torch.randn(args.batch_size, 3, args.image_size, args.image_size, generator=generator)
    labels = torch.randint(1000, (args.batch_size,), generator=generator)
    return images.to(device), labels.to(device)


def run_steps(count, model, optimizer, images, labels):
    """Images per second of this worker."""
    begin = time.perf_counter()
    for _ in range(count):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    if images.is_cuda:
        torch.cuda.synchronize()
    return len(images) * count / (time.perf_counter() - begin)


def log(text):
    """From one worker."""
    if hvd.rank() == 0:
        print(text, flush=True)


def log_start(args, device):
    log(f"Model: {args.model}\nBatch size: {args.batch_size}\nNumber of {device.type.upper()}s: {hvd.size()}")


def log_summary(speeds):
    mean, spread = statistics.fmean(speeds), 1.96 * statistics.pstdev(speeds)
    log(f"Img/sec per worker: {mean:.1f} +-{spread:.1f}")
    log(f"Total img/sec on {hvd.size()} worker(s): {hvd.size() * mean:.1f} +-{hvd.size() * spread:.1f}")


def device_of_worker(args):
    cuda = not args.no_cuda and torch.cuda.is_available()
    return torch.device("cuda", hvd.local_rank()) if cuda else torch.device("cpu")


def main():
    args = argument_parser().parse_args()
    hvd.init()
    device = device_of_worker(args)
    model, optimizer = model_and_optimizer(args, device)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    images, labels = batch(args, device)

    log_start(args, device)
    run_steps(args.num_warmup_batches, model, optimizer, images, labels)
    speeds = []
    for number in range(args.num_iters):
        speeds.append(run_steps(args.num_batches_per_iter, model, optimizer, images, labels))
        log(f"Iter #{number}: {speeds[-1]:.1f} img/sec per worker")
    log_summary(speeds)


if __name__ == "__main__":
    main()
