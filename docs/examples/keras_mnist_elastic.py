"""Trains the network of keras_mnist.py on workers that may come and go while it runs.

    horovodrun -np 4 --min-np 2 -H localhost:4 python docs/examples/keras_mnist_elastic.py

What makes it elastic is marked with "(elastic)".
"""

import argparse

import horovod.keras as hvd
import keras
from keras_mnist import load_digits, network


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=32, help="images per worker and step")
    parser.add_argument("--steps", type=int, default=None, help="of each epoch; all by default")
    parser.add_argument("--batches-per-commit", type=int, default=5, help="steps that a lost worker may cost")
    return parser.parse_args()


@hvd.elastic.run  # (elastic) called again when members have changed
def train(state, args, callbacks):
    (images, labels), _ = load_digits(hvd.rank(), hvd.size())  # (elastic) the shares of those that are there
    if args.steps:
        images, labels = (each[: args.steps * args.batch_size] for each in (images, labels))
    if hvd.rank() == 0:
        print(f"epoch {state.epoch}, batch {state.batch}: {hvd.size()} workers", flush=True)
    remaining = args.epochs - state.epoch
    state.model.fit(images, labels, args.batch_size, remaining, callbacks=callbacks, verbose=0)


def main():
    args = parse_arguments()
    _, held_out = load_digits(0, 1)  # (elastic) what takes time comes before init()
    hvd.init()
    model = network()
    model.compile(
        optimizer=hvd.DistributedOptimizer(keras.optimizers.Adam(0.001 * hvd.size())),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    # (elastic) rank 0's model, optimizer and counts are given to all when train() begins
    state = hvd.elastic.KerasState(model, batch=0, epoch=0)

    def follow_the_size():
        model.optimizer.learning_rate.assign(0.001 * hvd.size())

    state.register_reset_callbacks([follow_the_size])
    # (elastic) the state follows fit(), which goes on in the middle of an epoch; commits come first
    callbacks = [
        hvd.elastic.CommitStateCallback(state, batches_per_commit=args.batches_per_commit),
        hvd.elastic.UpdateBatchStateCallback(state),
        hvd.elastic.UpdateEpochStateCallback(state),
    ]
    train(state, args, callbacks)
    if hvd.rank() == 0:
        accuracy = model.evaluate(*held_out, verbose=0)[1]
        print(f"{hvd.size()} workers at the end, epoch {state.epoch}, accuracy {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
