"""Trains the network of pytorch_mnist.py on workers that may come and go while it runs.

    horovodrun -np 4 --min-np 2 -H localhost:4 python docs/examples/pytorch_mnist_elastic.py

Runs in a job whose workers stay, too. What makes it elastic is marked with "(elastic)".
"""

import argparse
import time

import horovod.torch as hvd
import torch
import torch.nn.functional as F
import torch.utils.data
from pytorch_mnist import Net, evaluate, load_digits


def parse_arguments():
    parser = argparse.ArgumentParser(description="MNIST on workers that come and go")
    parser.add_argument("--epochs", type=int, default=8, help="passes over the training images")
    parser.add_argument("--batch-size", type=int, default=32, help="images per worker and step")
    parser.add_argument("--batches-per-commit", type=int, default=5, help="steps that a lost worker may cost")
    parser.add_argument("--lr", type=float, default=0.005, help="learning rate of one worker")
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument(
        "--use-adasum", action="store_true", help="combine steps with Adasum, on 1, 2, 4, 8 ... workers"
    )
    return parser.parse_args()


def train_epoch(state, loader, args):
    """Goes on where the epoch stood when the state was committed."""
    state.model.train()
    for index, (images, labels) in enumerate(loader):
        state.optimizer.zero_grad()
        loss = F.cross_entropy(state.model(images), labels)
        loss.backward()
        state.optimizer.step()
        # (elastic) what has been seen is not dealt out again in this epoch
        state.sampler.record_batch(index, args.batch_size)
        state.step += 1
        # (elastic) all workers commit at the same step: there members join and leave
        if state.step % args.batches_per_commit == 0:
            state.commit()


@hvd.elastic.run  # (elastic) called again when members have changed
def train(state, loader, held_out, args):
    while state.epoch < args.epochs:
        train_epoch(state, loader, args)
        accuracy = evaluate(state.model, held_out)
        state.epoch += 1
        if hvd.rank() == 0:
            print(f"epoch {state.epoch}: {hvd.size()} workers, step {state.step}, accuracy {accuracy:.4f}", flush=True)
        # (elastic) the next epoch begins with all images
        state.sampler.set_epoch(state.epoch)
        state.commit()
    return evaluate(state.model, held_out)


def main():
    args = parse_arguments()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # several workers share the cores
    begin = time.perf_counter()

    # (elastic) what takes time comes before init(): once a worker has called it, the others wait for its train()
    training, held_out = load_digits(args.seed)
    model = Net()
    hvd.init()
    torch.manual_seed(args.seed + hvd.rank())  # dropout differs between workers
    # (elastic) deals out what is left of an epoch to those that are there
    sampler = hvd.elastic.ElasticSampler(training, seed=args.seed)
    loader = torch.utils.data.DataLoader(training, batch_size=args.batch_size, sampler=sampler)

    def rate():
        return args.lr * (1 if args.use_adasum else hvd.size())

    optimizer = torch.optim.SGD(model.parameters(), lr=rate(), momentum=args.momentum)
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters(), op=hvd.Adasum if args.use_adasum else hvd.Average
    )

    # (elastic) what all workers must agree on. Nothing is broadcast here: a worker that joins later would be alone with
    # it. The state is given to all when train() begins, and each time that members have changed.
    state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=0, step=0)

    def follow_the_size():
        for group in optimizer.param_groups:
            group["lr"] = rate()

    state.register_reset_callbacks([follow_the_size])

    accuracy = train(state, loader, held_out, args)
    if hvd.rank() == 0:
        print(f"accuracy on the held-out images: {accuracy:.4f}")
        print(f"time: {time.perf_counter() - begin:.1f} s, {state.step} steps")


if __name__ == "__main__":
    main()
