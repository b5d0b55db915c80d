"""Trains the network of tensorflow_mnist.py on images that the processes of another job prepare: a compute job.

    horovodrun -np 2 python -m horovod.tensorflow.data.compute_worker compute.json &
    horovodrun -np 2 python docs/examples/tensorflow_data_service.py compute.json

The workers of the compute job move, brighten and darken the images at random. They may run on other hosts, if all hosts
have the file compute.json. Lines that the data service needs are marked with "(service)".
"""

import argparse

import horovod.tensorflow as hvd
import tensorflow as tf
from horovod.tensorflow.data.compute_service import TfDataServiceConfig
from tensorflow_mnist import evaluate, load_digits, network, training_step, variables_of


def augmented(image, label):
    """Runs on the workers of the compute job."""
    image = tf.image.random_crop(tf.pad(image, [[2, 2], [2, 2], [0, 0]]), [28, 28, 1])
    return tf.clip_by_value(tf.image.random_brightness(image, 0.2), 0, 1), label


def dataset_of(training):
    """The share of this rank."""
    images, labels = (each[hvd.rank() :: hvd.size()] for each in training)
    # (service) The workers divide the elements of the source among them, and shard(), take() and batch() would act on
    # the part of each worker. Therefore the share is taken before, and batches are made after the dataset is sent.
    return tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(labels)).map(augmented)


def main():
    parser = argparse.ArgumentParser(description="MNIST with augmentation in a compute job")
    parser.add_argument("configfile", help="the file that the compute job writes")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=32, help="images per rank and step")
    args = parser.parse_args()
    hvd.init()
    training, held_out = load_digits()

    # (service) waits for the compute job, and lets its workers compute the dataset
    compute_config = TfDataServiceConfig.read(args.configfile, wait_for_file_creation=True)
    dataset = dataset_of(training).send_to_data_service(compute_config, hvd.rank(), hvd.size())
    # All ranks have the same number of steps.
    dataset = dataset.batch(args.batch_size).take(len(training[1]) // hvd.size() // args.batch_size)

    model = network()
    optimizer = tf.keras.optimizers.Adam(0.001 * hvd.size())
    step = training_step(model, optimizer, fp16_allreduce=False)
    steps = images_seen = 0
    for _ in range(args.epochs):
        for images, labels in dataset:
            loss = step(images, labels)
            if steps == 0:
                hvd.broadcast_variables(model.variables, root_rank=0)
                hvd.broadcast_variables(variables_of(optimizer), root_rank=0)
            if steps % 50 == 0 and hvd.rank() == 0:
                print(f"step {steps}: loss {float(loss):.4f}", flush=True)
            steps += 1
            images_seen += len(labels)
    print(f"rank {hvd.rank()} has seen {images_seen} images", flush=True)

    accuracy = evaluate(model, *held_out)  # ends when all ranks have read their data
    if hvd.rank() == 0:
        print(f"accuracy on the held-out images: {accuracy:.4f}")
        compute_config.compute_client().shutdown()  # (service) ends the compute job


if __name__ == "__main__":
    main()
