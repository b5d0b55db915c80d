"""Forecasts the sales of shops: Spark makes features of tables, and an estimator trains a network of Keras on them.

    python docs/examples/spark_sales.py --num-proc 2 --forecast /tmp/forecast

The network has an embedding for each category, and learns the logarithm of the sales. It is validated on two weeks that
follow the days to train on, and forecasts the two weeks after these. Errors are exp_rmspe, the root mean square
percentage error of the sales. spark_sales_tables.py generates the tables from a seed.
"""

import argparse
import tempfile

import keras
from horovod.spark.common.store import Store
from horovod.spark.keras import KerasEstimator
from horovod.tensorflow.keras.callbacks import BestModelCheckpoint
from pyspark.ml import Pipeline
from pyspark.ml.feature import StringIndexer, VectorAssembler
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F
from spark_sales_tables import day, generate

CATEGORIES = ["shop", "kind", "weekday", "month", "holiday"]
INDICES = [f"{name}_index" for name in CATEGORIES]
NUMBERS = ["promotion", "competition", "near_competition", "after_holiday"]


def features(shops, calendar, sales):
    """A row for each shop and each day on which it is open."""
    date = F.col("date")
    last_holiday = F.last(F.when(F.col("holiday") == "public", date), ignorenulls=True)
    last_holiday = last_holiday.over(Window.partitionBy("shop").orderBy("date"))
    return (
        sales.join(shops, "shop")
        .join(calendar, "date")
        .withColumn("weekday", F.dayofweek("date"))
        .withColumn("month", F.month("date"))
        .withColumn("competition", (date >= F.col("competitor_since")).cast("double"))
        .withColumn("near_competition", F.col("competition") * F.exp(-F.col("competitor_distance") / 500))
        .withColumn("after_holiday", F.exp(-F.coalesce(F.date_diff(date, last_holiday), F.lit(100)) / 7))
        .withColumn("log_sales", F.log("sales"))
        .withColumn("validates", date.between(day(-28), day(-15)))
        .filter("sales > 0")
    )


class ExpRmspe(keras.metrics.RootMeanSquaredError):
    """The root mean square percentage error of sales, of which the model predicts the logarithm."""

    def update_state(self, label, output, sample_weight=None):
        ratio = keras.ops.exp(output - keras.ops.cast(label, output.dtype))  # predicted / true sales
        return super().update_state(keras.ops.ones_like(ratio), ratio, sample_weight)


def network(sizes, mean):
    """The model. It has an input for the index of each category, and one for all numbers.

    :param sizes: the number of values of each category
    :param mean: of the labels, with which the output begins
    """
    inputs = [keras.Input((1,), name=name, dtype="int64") for name in INDICES]
    vectors = [keras.layers.Embedding(size, min(size // 2 + 1, 10))(each) for size, each in zip(sizes, inputs)]
    inputs.append(keras.Input((len(NUMBERS),), name="numbers"))
    hidden = keras.layers.Concatenate()([*map(keras.layers.Flatten(), vectors), inputs[-1]])
    for units in (64, 32):
        hidden = keras.layers.Dense(units, activation="relu")(hidden)
    return keras.Model(inputs, keras.layers.Dense(1, bias_initializer=keras.initializers.Constant(mean))(hidden))


def main():
    parser = argparse.ArgumentParser(description="forecasts of sales by an estimator of Spark")
    parser.add_argument("--forecast", required=True, help="folder to which the forecast is written, as Parquet files")
    parser.add_argument("--num-proc", type=int, default=2, help="processes that train")
    parser.add_argument("--epochs", type=int, default=8, help="passes over the rows to train on")
    parser.add_argument("--store", help="a folder that all hosts see; a temporary one by default")
    args = parser.parse_args()

    spark = SparkSession.builder.appName("sales").getOrCreate()
    frame = features(*generate(spark)).persist()
    known, future = frame.filter(F.col("date") <= day(-15)), frame.filter(F.col("date") > day(-15))
    indexer = StringIndexer(inputCols=CATEGORIES, outputCols=INDICES, handleInvalid="keep").fit(known)
    sizes = [len(labels) + 1 for labels in indexer.labelsArray]  # the last index is for values that are new
    mean = known.select(F.avg("log_sales")).first()[0]
    with tempfile.TemporaryDirectory() as folder:
        keras.utils.set_random_seed(1)
        estimator = KerasEstimator(
            num_proc=args.num_proc,
            store=Store.create(args.store or folder),
            model=network(sizes, mean),
            optimizer=keras.optimizers.Adam(0.001),  # the learning rate of one process
            loss="mse",
            metrics=[ExpRmspe(name="exp_rmspe")],
            custom_objects={"ExpRmspe": ExpRmspe},
            feature_cols=[*INDICES, "numbers"],
            label_cols=["log_sales"],
            validation="validates",
            checkpoint_callback=BestModelCheckpoint(monitor="val_exp_rmspe", mode="min"),
            batch_size=64,
            epochs=args.epochs,
            partitions_per_process=2,  # few rows need few files
            random_seed=1,
            verbose=1,
        )
        numbers = VectorAssembler(inputCols=NUMBERS, outputCol="numbers")
        fitted = Pipeline(stages=[indexer, numbers, estimator]).fit(known)

        print(f"exp_rmspe of the validation: {min(fitted.stages[-1].getHistory()['val_exp_rmspe']):.3f}")
        forecast = fitted.transform(future).withColumn("forecast", F.exp("log_sales__output"))
        forecast = forecast.select("shop", "date", "sales", "forecast").coalesce(1)  # one file
        forecast.write.mode("overwrite").parquet(args.forecast)
        written = spark.read.parquet(args.forecast)
        error = F.sqrt(F.avg(F.pow(F.col("forecast") / F.col("sales") - 1, 2)))
        print(f"exp_rmspe of the forecast for {written.count()} rows: {written.select(error).first()[0]:.3f}")
    spark.stop()


if __name__ == "__main__":
    main()
