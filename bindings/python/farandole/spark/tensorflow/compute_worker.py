"""A compute job of the data service in the executors of Spark:

    spark-submit --master MASTER compute_worker.py CONFIGFILE
    python -m horovod.spark.tensorflow.compute_worker CONFIGFILE

The driver runs the compute service and writes the file, which tells the training job of it. Each of Spark's tasks runs
a worker, until the training job shuts the compute service down.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

from farandole.runner.util import network
from farandole.spark.requirements import require_pyspark
from farandole.spark.runner import run


def main(dispatchers: int, dispatcher_side: str, configfile: str, timeout: int) -> None:
    """Runs a compute job with ``spark.default.parallelism`` workers, and returns when the compute service is shut down.
    It makes a Spark session if there is none, and leaves it running. The config file exists while the job runs.

    ``ValueError`` if the number of workers is no multiple of ``dispatchers``, or an argument is out of range;
    ``OSError`` if the file cannot be written; and the errors of ``horovod.spark.run()``.

    :param dispatchers: the number of dispatchers; each has an equal number of workers
    :param dispatcher_side: the job that runs the dispatchers: "compute" or "training"
    :param configfile: the file to write, for ``TfDataServiceConfig.read()``
    :param timeout: the longest time in seconds until the dispatchers and workers have started
    """
    require_pyspark()
    from pyspark.sql import SparkSession

    from farandole.tensorflow.data.compute_service import compute_worker_fn
    from farandole.tensorflow.data.compute_worker import compute_service, workers_per_dispatcher

    context = SparkSession.builder.getOrCreate().sparkContext
    processes = context.defaultParallelism
    workers = workers_per_dispatcher(processes, dispatchers)
    with compute_service(dispatchers, workers, dispatcher_side, configfile, timeout, _interface_of(context)) as config:
        run(compute_worker_fn, args=(config,), num_proc=processes)


def _interface_of(context: Any) -> Optional[Sequence[str]]:
    """The interface with the address of Spark's driver; None, for all, if no interface has it."""
    address = network.resolve_host_address(context.getConf().get("spark.driver.host", ""))
    return [name for name, each in network._addresses().items() if each == address] or None


if __name__ == "__main__":
    from farandole.tensorflow.data.compute_worker import argument_parser

    program = "python -m horovod.spark.tensorflow.compute_worker"
    description = "Computes tf.data datasets for a training job, in Spark's executors."
    arguments = argument_parser(program, description).parse_args()
    main(arguments.dispatchers, arguments.dispatcher_side, arguments.configfile, arguments.timeout)
