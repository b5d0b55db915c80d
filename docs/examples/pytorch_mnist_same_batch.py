"""Trains the network of pytorch_mnist.py on workers that may come and go, with the same batches whoever is there.

    horovodrun -np 4 --min-np 2 -H localhost:4 python docs/examples/pytorch_mnist_same_batch.py

Each batch is cut into as many parts as there will ever be workers, and the parts are dealt out to those that are there.
So the learning rate stays, and the weights are those of any other number of workers, up to the last bits of sums. The
last line shows it: it begins with WEIGHTS, for `farandole chaos --compare`.
"""

import argparse

import horovod.torch as hvd
import torch
import torch.nn.functional as F
from pytorch_mnist import Net, evaluate, load_digits


def parse_arguments():
    parser = argparse.ArgumentParser(description="MNIST with the same batches on any number of workers")
    parser.add_argument("--epochs", type=int, default=4, help="passes over the training images")
    parser.add_argument("--part-size", type=int, default=32, help="images in each part of a batch")
    parser.add_argument("--lr", type=float, default=0.005, help="learning rate for one part")
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=42)
    return parser.parse_args()


def own_parts():
    """Those of this worker: a part belongs to one of those that are there."""
    return range(hvd.rank(), hvd.max_size(), hvd.size())


def batches_of_epoch(images, state, args):
    """The indices of each part of each batch, the same on all workers; what does not fill a batch is left out."""
    batch_size = hvd.max_size() * args.part_size
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(args.seed + state.epoch))
    return order[: len(images) // batch_size * batch_size].view(-1, hvd.max_size(), args.part_size)


def train_step(state, images, parts, args):
    """One batch. The gradients of this worker's parts are added up, and reduced with the last one."""
    state.optimizer.zero_grad()
    for part in own_parts():
        # What chance decides (dropout) belongs to the part, not to the worker that has it.
        torch.manual_seed(hash((args.seed, state.epoch, state.batch, part)))
        pixels, labels = images[parts[part]]
        (F.cross_entropy(state.model(pixels), labels) / hvd.max_size()).backward()
    state.optimizer.step()


@hvd.elastic.run
def train(state, images, held_out, args):
    while state.epoch < args.epochs:
        batches = batches_of_epoch(images, state, args)
        state.model.train()
        while state.batch < len(batches):
            train_step(state, images, batches[state.batch], args)
            state.batch += 1
            state.commit()
        accuracy = evaluate(state.model, held_out)
        state.epoch, state.batch = state.epoch + 1, 0
        if hvd.rank() == 0:
            print(f"epoch {state.epoch}: {hvd.size()} workers, accuracy {accuracy:.4f}", flush=True)
        state.commit()


def main():
    args = parse_arguments()
    hvd.init()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # several workers share the cores
    images, held_out = load_digits(args.seed)

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * hvd.max_size(), momentum=args.momentum)
    # The sum, since each part's loss is divided by the number of parts.
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), op=hvd.Sum)
    state = hvd.elastic.TorchState(model, optimizer, epoch=0, batch=0)

    def follow_the_size():
        optimizer.set_backward_passes_per_step(len(own_parts()))

    follow_the_size()
    state.register_reset_callbacks([follow_the_size])

    train(state, images, held_out, args)
    if hvd.rank() == 0:
        total = sum(parameter.double().abs().sum() for parameter in model.parameters())
        print(f"WEIGHTS {total:.3f}", flush=True)


if __name__ == "__main__":
    main()
