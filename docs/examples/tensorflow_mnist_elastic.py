"""Trains the network of tensorflow_mnist.py on workers that may come and go while it runs.

    horovodrun -np 4 --min-np 2 -H localhost:4 python docs/examples/tensorflow_mnist_elastic.py

What makes it elastic is marked with "(elastic)".
"""

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from tensorflow_mnist import argument_parser, evaluate, load_digits, network, training_step


def parse_arguments():
    parser = argument_parser()
    parser.add_argument("--batches-per-commit", type=int, default=10, help="steps that a lost worker may cost")
    return parser.parse_args()


@hvd.elastic.run  # (elastic) called again when members have changed
def train(state, step, training, args):
    images, labels = training
    # (elastic) each worker draws on its own, and others than before the change
    draw = np.random.default_rng([hvd.rank(), state.batch])
    while state.batch < args.steps // hvd.size():
        chosen = draw.integers(len(labels), size=args.batch_size)
        loss = step(tf.constant(images[chosen]), tf.constant(labels[chosen]))
        state.batch += 1
        if state.batch % 50 == 0 and hvd.rank() == 0:
            print(f"step {state.batch}: {hvd.size()} workers, loss {float(loss):.4f}", flush=True)
        # (elastic) all workers commit at the same step: there members join and leave
        if state.batch % args.batches_per_commit == 0:
            state.commit()


def main():
    args = parse_arguments()
    # (elastic) what takes time comes before init(): once a worker has called it, the others wait for its train()
    training, held_out = load_digits()
    hvd.init()
    tf.keras.utils.set_random_seed(42 + hvd.rank())
    model = network()
    optimizer = tf.keras.optimizers.Adam(args.lr * hvd.size())
    step = training_step(model, optimizer, args.fp16_allreduce)
    # (elastic) one step without the others makes the variables; rank 0's are given to all when train() begins
    step(tf.constant(training[0][: args.batch_size]), tf.constant(training[1][: args.batch_size]), alone=True)
    state = hvd.elastic.TensorFlowKerasState(model, optimizer, batch=0)

    def follow_the_size():
        optimizer.learning_rate.assign(args.lr * hvd.size())

    state.register_reset_callbacks([follow_the_size])
    train(state, step, training, args)
    accuracy = evaluate(model, *held_out)
    if hvd.rank() == 0:
        print(f"{hvd.size()} workers at the end, step {state.batch}, accuracy on the held-out images: {accuracy:.4f}")


if __name__ == "__main__":
    main()
