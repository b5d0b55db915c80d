"""Moves the work of tf.data datasets to the workers of a compute job.

A compute job runs ``farandole.tensorflow.data.compute_worker``, or ``compute_worker_fn`` in each of its processes. It
describes itself in a ``TfDataServiceConfig``. A training job reads this description, usually from a file, and sends
its datasets to the workers with ``send_to_data_service()``, or with ``tf_data_service()`` and TensorFlow's
``distribute()``.

A dispatcher of tf.data assigns datasets to its workers. There are one or several, in the compute job or in the training
job (the side of the dispatchers). Rank r of the training job uses dispatcher r modulo the number of dispatchers.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
from typing import DefaultDict, Iterator, Optional, Tuple

import tensorflow as tf

from farandole.tensorflow.data import servers
from farandole.tensorflow.data.config import COMPUTE, TRAINING, TfDataServiceConfig

__all__ = ["TfDataServiceConfig", "compute_worker_fn", "send_to_data_service", "tf_data_service"]

_datasets: DefaultDict[Tuple[str, int], Iterator[int]] = collections.defaultdict(itertools.count)
"""For each dispatcher and rank, the numbers of the shared datasets that the rank sends."""


@contextlib.contextmanager
def tf_data_service(compute_config: TfDataServiceConfig, rank: int) -> Iterator[str]:
    """Gives the address of the dispatcher that this rank of the training job uses, such as "grpc://10.0.0.5:40123", to
    a ``with`` block. All workers of the dispatcher have started when the block begins.

    With dispatchers on the training side, the first ranks start them, one each. A dispatcher runs until the compute
    service is shut down or the process ends, so that other ranks can still read when the block of this rank has ended.

    ``TimeoutException`` if the dispatcher or a worker does not start within ``compute_config.timeout`` seconds.

    :param rank: the rank of this process in the training job
    """
    client = compute_config.compute_client()
    dispatcher_id = rank % compute_config.dispatchers
    if compute_config.dispatcher_side == TRAINING and rank == dispatcher_id:
        servers.run_dispatcher_until_shutdown(compute_config, client, dispatcher_id)
    address = client.wait_for_dispatcher_registration(dispatcher_id, compute_config.timeout)
    client.wait_for_dispatcher_worker_registration(dispatcher_id, compute_config.timeout)
    yield address


def send_to_data_service(
    dataset: tf.data.Dataset,
    compute_config: TfDataServiceConfig,
    rank: int,
    size: Optional[int] = None,
    processing_mode: str = "distributed_epoch",
    reuse_dataset: bool = False,
    round_robin: bool = False,
) -> tf.data.Dataset:
    """The elements of a dataset, as the workers of the compute job compute them. Also a method of ``tf.data.Dataset``.

    ``RuntimeError`` if the dispatchers run on the training side, ``ValueError`` for options that do not fit together,
    and the errors of ``tf_data_service()``.

    :param rank: the rank of this process in the training job
    :param size: the size of the training job; needed with ``round_robin``
    :param processing_mode: "distributed_epoch": the workers of a dispatcher divide the elements among them;
        "parallel_epochs": each worker computes all elements
    :param reuse_dataset: ranks with the same dispatcher share the elements: each element reaches one of them. These
        ranks send the same datasets in the same order. Without it, each rank receives all elements
    :param round_robin: the ranks that share a dataset take elements in turn. The dataset must be infinite
    """
    if compute_config.dispatcher_side != COMPUTE:
        raise RuntimeError(
            f"send_to_data_service() needs dispatchers on the {COMPUTE} side, and the compute job was started with "
            f"dispatchers on the {compute_config.dispatcher_side} side; use tf_data_service(), or start the compute "
            f"job with --dispatcher-side {COMPUTE}"
        )
    consumer: Tuple[Optional[int], Optional[int]] = (None, None)
    if round_robin:
        consumer = _consumer(compute_config, rank, size, reuse_dataset)
    with tf_data_service(compute_config, rank) as address:
        job_name = f"dataset {next(_datasets[address, rank])}" if reuse_dataset else None
        consumer_index, num_consumers = consumer
        return dataset.apply(
            tf.data.experimental.service.distribute(
                processing_mode=processing_mode,
                service=address,
                job_name=job_name,
                consumer_index=consumer_index,
                num_consumers=num_consumers,
            )
        )


def _consumer(
    compute_config: TfDataServiceConfig, rank: int, size: Optional[int], reuse_dataset: bool
) -> Tuple[int, int]:
    """The index of this rank among the ranks that use the same dispatcher, and the number of these ranks."""
    if not reuse_dataset:
        raise ValueError(
            "round_robin=True needs reuse_dataset=True: ranks take turns only with a dataset that they share"
        )
    if size is None or not 0 <= rank < size:
        raise ValueError(f"round_robin=True needs the size of the training job, above its rank {rank}; size is {size}")
    dispatcher_id = rank % compute_config.dispatchers
    return rank // compute_config.dispatchers, len(range(dispatcher_id, size, compute_config.dispatchers))


def compute_worker_fn(compute_config: TfDataServiceConfig) -> None:
    """Runs a worker of the data service, until the compute service is shut down. Every process of the compute job calls
    it; it calls ``init()``. With dispatchers on the compute side, the first process of each dispatcher runs it as well.

    ``ValueError`` if the job has another size than the config says; ``TimeoutException`` if the dispatcher does not
    start within ``compute_config.timeout`` seconds; ``ConnectionError`` if the dispatcher cannot be reached, or the
    compute service ends without shutdown.
    """
    import farandole.numpy as job

    job.init()
    rank, size = job.rank(), job.size()
    expected = compute_config.dispatchers * compute_config.workers_per_dispatcher
    if size != expected:
        raise ValueError(
            f"the compute job has {size} processes, and its config has {compute_config.dispatchers} dispatchers with "
            f"{compute_config.workers_per_dispatcher} workers each, which is {expected}; start {expected} processes"
        )
    dispatcher_id, worker_id = divmod(rank, compute_config.workers_per_dispatcher)
    client = compute_config.compute_client()
    if compute_config.dispatcher_side == COMPUTE and worker_id == 0:
        servers.run_dispatcher(compute_config, client, dispatcher_id)
    try:
        address = client.wait_for_dispatcher_registration(dispatcher_id, compute_config.timeout)
        worker = servers.start_worker(address, client, compute_config.timeout)
        try:
            client.register_worker_for_dispatcher(dispatcher_id, worker_id)
            client.wait_for_shutdown()
        finally:
            worker.stop()
    finally:
        servers.stop_dispatcher(compute_config, dispatcher_id)


tf.data.Dataset.send_to_data_service = send_to_data_service
