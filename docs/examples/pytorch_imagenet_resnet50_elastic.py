"""Trains ResNet-50 as pytorch_imagenet_resnet50.py does, on workers that may come and go while it runs.

    horovodrun -np 4 --min-np 2 -H localhost:4 python docs/examples/pytorch_imagenet_resnet50_elastic.py --no-cuda

What makes it elastic is marked with "(elastic)". Checkpoints are for the next job; within a job, the state that was
committed last is kept in memory.
"""

import horovod.torch as hvd
import torch
from pytorch_imagenet_resnet50 import (
    argument_parser,
    device_of_worker,
    learning_rate,
    load_checkpoint,
    mean_over_workers,
    model_and_optimizer,
    save_checkpoint,
    train_step,
    training_and_validation,
    validate,
)
from torch.utils.data import DataLoader


def parse_arguments():
    parser = argument_parser()
    parser.add_argument("--batches-per-commit", type=int, default=50, help="steps that a lost worker may cost")
    return parser.parse_args()


@hvd.elastic.run  # (elastic) called again when members have changed
def train(state, loader, validation_loader, device, args):
    while state.epoch < args.epochs:
        state.model.train()
        total, steps = 0.0, 0
        for index, (images, labels) in enumerate(loader):
            for group in state.optimizer.param_groups:
                group["lr"] = learning_rate(args, state.epoch + index / len(loader), hvd.size())
            total += train_step(state.model, state.optimizer, images.to(device), labels.to(device), args.batch_size)
            steps += 1
            # (elastic) what has been seen is not dealt out again in this epoch
            state.sampler.record_batch(index, len(labels))
            state.batch += 1
            # (elastic) all workers commit at the same step: there members join and leave
            if state.batch % args.batches_per_commit == 0:
                state.commit()
        loss = mean_over_workers(total, max(1, steps), "loss")
        accuracy = validate(state.model, validation_loader, device)
        state.epoch += 1
        save_checkpoint(args, state.model, state.optimizer, state.epoch)
        if hvd.rank() == 0:
            text = f"{hvd.size()} workers, step {state.batch}, loss {loss:.4f}, accuracy {accuracy:.4f}"
            print(f"epoch {state.epoch}: {text}", flush=True)
        # (elastic) the next epoch begins with all images
        state.sampler.set_epoch(state.epoch)
        state.validation_sampler.set_epoch(state.epoch)
        state.commit()


def main():
    args = parse_arguments()
    torch.set_num_threads(1)  # several workers share the cores
    # (elastic) what takes time comes before init(): once a worker has called it, the others wait for its train()
    training, validation = training_and_validation(args)
    hvd.init()
    torch.manual_seed(args.seed + hvd.rank())
    device = device_of_worker(args)
    # (elastic) deal out what is left of an epoch to those that are there
    sampler = hvd.elastic.ElasticSampler(training, seed=args.seed)
    validation_sampler = hvd.elastic.ElasticSampler(validation, shuffle=False)
    per_step = args.batch_size * args.batches_per_allreduce
    loader = DataLoader(training, batch_size=per_step, sampler=sampler, drop_last=True)
    validation_loader = DataLoader(validation, batch_size=args.batch_size, sampler=validation_sampler)

    model, optimizer = model_and_optimizer(args, device)
    # (elastic) nothing is broadcast here: rank 0's state is given to all when train() begins
    epoch = load_checkpoint(args, model, optimizer, device) if hvd.rank() == 0 else 0
    sampler.set_epoch(epoch)
    state = hvd.elastic.TorchState(
        model, optimizer, sampler=sampler, validation_sampler=validation_sampler, epoch=epoch, batch=0
    )
    train(state, loader, validation_loader, device, args)


if __name__ == "__main__":
    main()
