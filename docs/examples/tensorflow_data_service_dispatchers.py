"""Trains with Keras on images that a compute job prepares, with dispatchers in the training job: one for each rank.

    horovodrun -np 4 python -m horovod.tensorflow.data.compute_worker compute.json \\
        --dispatchers 2 --dispatcher-side training &
    horovodrun -np 2 python docs/examples/tensorflow_data_service_dispatchers.py compute.json

A dispatcher assigns datasets to its workers, so each rank has two workers of its own here. Lines that the data service
needs are marked with "(service)"; tensorflow_data_service.py shows the dispatchers in the compute job.
"""

import argparse

import horovod.tensorflow.keras as hvd
import tensorflow as tf
from horovod.tensorflow.data.compute_service import TfDataServiceConfig, tf_data_service
from tensorflow_data_service import dataset_of
from tensorflow_mnist import load_digits, network


class CountImages(tf.keras.callbacks.Callback):
    """Counts the images of all steps."""

    def __init__(self, batch_size):
        super().__init__()
        self.batch_size, self.images = batch_size, 0

    def on_train_batch_end(self, batch, logs=None):
        self.images += self.batch_size


def main():
    parser = argparse.ArgumentParser(description="MNIST with dispatchers in the training job")
    parser.add_argument("configfile", help="the file that the compute job writes")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=32, help="images per rank and step")
    args = parser.parse_args()
    hvd.init()
    training, (held_out_images, held_out_labels) = load_digits()
    steps = len(training[1]) // hvd.size() // args.batch_size  # all ranks have the same number
    model = network()
    model.compile(
        optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.001 * hvd.size())),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    count = CountImages(args.batch_size)
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback(), count]

    # (service) waits for the compute job, starts the dispatcher of this rank, and waits for its workers
    compute_config = TfDataServiceConfig.read(args.configfile, wait_for_file_creation=True)
    with tf_data_service(compute_config, hvd.rank()) as dispatcher_address:
        dataset = dataset_of(training).apply(
            tf.data.experimental.service.distribute(
                processing_mode=tf.data.experimental.service.ShardingPolicy.DYNAMIC, service=dispatcher_address
            )
        )
        dataset = dataset.batch(args.batch_size).take(steps)
        # (service) TensorFlow does not know the number of elements that the workers will send
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(steps))
        verbose = 2 if hvd.rank() == 0 else 0
        model.fit(dataset, epochs=args.epochs, callbacks=callbacks, verbose=verbose, shuffle=False)
    print(f"rank {hvd.rank()} has seen {count.images} images", flush=True)

    # The metric is averaged over all ranks, so all of them have read their data.
    right = tf.argmax(model(held_out_images, training=False), axis=1) == held_out_labels
    accuracy = hvd.allreduce(tf.reduce_mean(tf.cast(right, tf.float32)))
    if hvd.rank() == 0:
        print(f"accuracy on the held-out images: {float(accuracy):.4f}")
        compute_config.compute_client().shutdown()  # (service) ends the compute job


if __name__ == "__main__":
    main()
