"""Trains ResNet-50 on ImageNet, or on generated images, with checkpoints from which the next job resumes.

    horovodrun -np 4 python docs/examples/pytorch_imagenet_resnet50.py --train-dir imagenet/train --val-dir imagenet/val
    horovodrun -np 2 python docs/examples/pytorch_imagenet_resnet50.py --images 256 --image-size 64 --batch-size 8

The second form needs no data. What makes the script distributed is marked with "(distributed)".
"""

import argparse
from pathlib import Path

import horovod.torch as hvd
import torch
import torch.nn.functional as F
import torchvision
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler
from torchvision import transforms


def argument_parser():
    parser = argparse.ArgumentParser(
        description="ResNet-50 on several workers", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--train-dir", help="training images, in a folder for each class; generated if not given")
    parser.add_argument("--val-dir", help="images for validation, likewise")
    parser.add_argument("--images", type=int, default=1024, help="how many images are generated for an epoch")
    parser.add_argument("--image-size", type=int, default=224, help="width and height in pixels")
    parser.add_argument("--checkpoint-format", default="checkpoint-{epoch}.pth.tar", help="checkpoints' path")
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--batch-size", type=int, default=32, help="images per worker and backward pass")
    parser.add_argument("--batches-per-allreduce", type=int, default=1, help="backward passes of a step")
    parser.add_argument("--base-lr", type=float, default=0.0125, help="learning rate of one worker")
    parser.add_argument("--warmup-epochs", type=float, default=5, help="epochs until the learning rate is full")
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--wd", type=float, default=0.00005, help="weight decay")
    parser.add_argument("--fp16-allreduce", action="store_true", help="let gradients travel in half precision")
    parser.add_argument("--use-adasum", action="store_true", help="combine steps with Adasum")
    parser.add_argument("--no-cuda", action="store_true", help="stay on the CPU")
    parser.add_argument("--seed", type=int, default=42)
    return parser


class GeneratedImages(Dataset):
    """Noise, on a background that is of one colour for each of ten classes. An index always gives the same image."""

    def __init__(self, count, image_size, seed):
        self.count, self.image_size, self.seed = count, image_size, seed

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        label = index % 10
        generator = torch.Generator().manual_seed(self.seed + index)
        colour = torch.tensor([label % 2, label % 3, label % 5]).view(3, 1, 1) - 1.0
        return torch.randn(3, self.image_size, self.image_size, generator=generator) + colour, label


def training_and_validation(args):
    if args.train_dir is None:
        return (
            GeneratedImages(args.images, args.image_size, args.seed),
            GeneratedImages(max(10, args.images // 10), args.image_size, args.seed + args.images),
        )
    last = [transforms.ToTensor(), transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    varied = [transforms.RandomResizedCrop(args.image_size), transforms.RandomHorizontalFlip()]
    plain = [transforms.Resize(args.image_size * 8 // 7), transforms.CenterCrop(args.image_size)]
    return (
        torchvision.datasets.ImageFolder(args.train_dir, transforms.Compose([*varied, *last])),
        torchvision.datasets.ImageFolder(args.val_dir, transforms.Compose([*plain, *last])),
    )


def learning_rate(args, epoch, workers):
    """Goyal et al. 2017: up to the rate for this many workers in the first epochs, later down by ten three times."""
    # Adasum combines steps: more workers need no larger ones.
    full = args.base_lr * args.batches_per_allreduce * (1 if args.use_adasum else workers)
    if epoch < args.warmup_epochs:
        return args.base_lr + (full - args.base_lr) * epoch / args.warmup_epochs
    return full * 0.1 ** sum(epoch >= each for each in (30, 60, 80))


def model_and_optimizer(args, device):
    model = torchvision.models.resnet50().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.base_lr, momentum=args.momentum, weight_decay=args.wd)
    # (distributed) gradients are averaged over all workers
    return model, hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none,
        backward_passes_per_step=args.batches_per_allreduce,
        op=hvd.Adasum if args.use_adasum else hvd.Average,
    )


def device_of_worker(args):
    """(distributed) A GPU for each worker of a host."""
    if args.no_cuda or not torch.cuda.is_available():
        return torch.device("cpu")
    torch.cuda.set_device(hvd.local_rank())
    return torch.device("cuda")


def train_step(model, optimizer, images, labels, batch_size):
    """One step of the optimizer, whose batch may take several passes; returns the loss."""
    optimizer.zero_grad()
    total = 0.0
    for some_images, some_labels in zip(images.split(batch_size), labels.split(batch_size)):
        loss = F.cross_entropy(model(some_images), some_labels) * len(some_labels) / len(labels)
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


def mean_over_workers(total, count, name):
    """(distributed) Workers may have seen different numbers of images."""
    sums = hvd.allreduce(torch.tensor([total, count], dtype=torch.float64), op=hvd.Sum, name=name)
    return (sums[0] / sums[1]).item()


def validate(model, loader, device):
    """The accuracy, over all workers."""
    model.eval()
    right = images_seen = 0
    with torch.no_grad():
        for images, labels in loader:
            right += (model(images.to(device)).argmax(1) == labels.to(device)).sum().item()
            images_seen += len(labels)
    return mean_over_workers(right, images_seen, "accuracy")


def save_checkpoint(args, model, optimizer, epoch):
    """(distributed) One worker writes."""
    if hvd.rank() == 0:
        content = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(content, args.checkpoint_format.format(epoch=epoch))


def load_checkpoint(args, model, optimizer, device):
    """Loads the last checkpoint that there is; returns the number of epochs that it has behind it, 0 without one."""
    for epoch in range(args.epochs, 0, -1):
        path = Path(args.checkpoint_format.format(epoch=epoch))
        if path.exists():
            content = torch.load(path, map_location=device)
            model.load_state_dict(content["model"])
            optimizer.load_state_dict(content["optimizer"])
            print(f"resumed from {path.name}", flush=True)
            return epoch
    return 0


def main():
    args = argument_parser().parse_args()
    hvd.init()  # (distributed)
    torch.manual_seed(args.seed + hvd.rank())  # (distributed) images are cropped differently on each worker
    torch.set_num_threads(1)  # several workers share the cores
    device = device_of_worker(args)

    training, validation = training_and_validation(args)
    # (distributed) each worker sees its own share of the images
    sampler = DistributedSampler(training, num_replicas=hvd.size(), rank=hvd.rank(), seed=args.seed)
    per_step = args.batch_size * args.batches_per_allreduce
    loader = DataLoader(training, batch_size=per_step, sampler=sampler, drop_last=True)
    shares = DistributedSampler(validation, num_replicas=hvd.size(), rank=hvd.rank(), shuffle=False)
    validation_loader = DataLoader(validation, batch_size=args.batch_size, sampler=shares)

    model, optimizer = model_and_optimizer(args, device)
    # (distributed) one worker reads the checkpoint, the others receive what was in it
    first_epoch = load_checkpoint(args, model, optimizer, device) if hvd.rank() == 0 else 0
    first_epoch = hvd.broadcast_object(first_epoch, root_rank=0, name="first epoch")
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    for epoch in range(first_epoch, args.epochs):
        model.train()
        sampler.set_epoch(epoch)
        total = 0.0
        for step, (images, labels) in enumerate(loader):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(args, epoch + step / len(loader), hvd.size())
            total += train_step(model, optimizer, images.to(device), labels.to(device), args.batch_size)
        loss = mean_over_workers(total, max(1, len(loader)), "loss")
        accuracy = validate(model, validation_loader, device)
        save_checkpoint(args, model, optimizer, epoch + 1)
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}: {hvd.size()} workers, loss {loss:.4f}, accuracy {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
