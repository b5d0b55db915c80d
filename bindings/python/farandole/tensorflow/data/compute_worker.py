"""A compute job of the data service: ``horovodrun -np 4 python -m horovod.tensorflow.data.compute_worker CONFIGFILE``.

The job writes the file, which tells the training job of it, and runs until the training job shuts the compute service
down.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from typing import Iterator, Optional, Sequence, Union

import farandole.numpy as job
from farandole.runner.common.service.compute_service import ComputeService
from farandole.runner.common.util import secret
from farandole.runner.util import network
from farandole.tensorflow.data.compute_service import compute_worker_fn
from farandole.tensorflow.data.config import COMPUTE, SIDES, TfDataServiceConfig

TRAINING_JOB = """\
Each process computes elements of datasets. The training job, on any hosts that
see the file, reads it and sends its datasets:
  config = TfDataServiceConfig.read("/shared/compute.json", True)
  dataset = dataset.send_to_data_service(config, hvd.rank(), hvd.size())
One of its processes ends this job by config.compute_client().shutdown()."""


def main(dispatchers: int, dispatcher_side: str, configfile: str, timeout: int) -> None:
    """Runs a compute job. Each of its processes calls this function. It calls ``init()``, and returns when the compute
    service is shut down. It may run in a thread. The config file exists while the job runs.

    ``ValueError`` if the number of processes is no multiple of ``dispatchers``, or an argument is out of range;
    ``OSError`` if rank 0 cannot write the file; and the errors of ``compute_worker_fn()``.

    :param dispatchers: the number of dispatchers; each has an equal number of workers
    :param dispatcher_side: the job that runs the dispatchers: "compute" or "training"
    :param configfile: the file that rank 0 writes, for ``TfDataServiceConfig.read()``
    :param timeout: the longest time in seconds until the dispatchers and workers have started
    """
    job.init()
    workers = workers_per_dispatcher(job.size(), dispatchers)
    with contextlib.ExitStack() as stack:
        config: Union[TfDataServiceConfig, Exception, None] = None
        if job.rank() == 0:
            try:
                config = stack.enter_context(
                    compute_service(dispatchers, workers, dispatcher_side, configfile, timeout, _chosen_interface())
                )
            except (OSError, RuntimeError, ValueError) as problem:
                config = problem
        # The other ranks learn of a failure at once, also those that run this function in a thread.
        config = job.broadcast_object(config, root_rank=0, name=f"compute worker {configfile}")
        if isinstance(config, Exception):
            raise config
        compute_worker_fn(config)


@contextlib.contextmanager
def compute_service(
    dispatchers: int,
    workers: int,
    dispatcher_side: str,
    configfile: str,
    timeout: int,
    nics: Optional[Sequence[str]],
) -> Iterator[TfDataServiceConfig]:
    """Runs the compute service of a job during a ``with`` block, and gives its config, which is also in the file. A
    line is printed when all dispatchers and workers have started.

    :param workers: the number of workers of each dispatcher
    :param nics: the interfaces of the service; None for all
    """
    key = secret.make_secret_key()
    service = ComputeService(dispatchers, workers, key, nics)
    service.when_ready = lambda: _say_ready(dispatchers, workers, dispatcher_side, configfile)
    try:
        config = TfDataServiceConfig(dispatchers, workers, dispatcher_side, service.addresses(), key, timeout)
        config.write(configfile)
        try:
            yield config
        finally:
            _remove_file(configfile, config)
    finally:
        service.shutdown()


def _say_ready(dispatchers: int, workers: int, dispatcher_side: str, configfile: str) -> None:
    print(
        f"farandole: the compute job of {configfile} is ready: {_counted(dispatchers, 'dispatcher')} on the "
        f"{dispatcher_side} side, {_counted(dispatchers * workers, 'worker')}",
        file=sys.stderr,
        flush=True,
    )


def _counted(count: int, name: str) -> str:
    return f"{count} {name}{'' if count == 1 else 's'}"


def workers_per_dispatcher(processes: int, dispatchers: int) -> int:
    """The number of workers of each dispatcher; ``ValueError`` if it would not be the same for all."""
    if dispatchers < 1 or processes % dispatchers:
        raise ValueError(
            f"the compute job has {processes} processes and {dispatchers} dispatchers; the number of processes must be "
            "a multiple of the number of dispatchers, which is at least 1"
        )
    return processes // dispatchers


def _remove_file(configfile: str, config: TfDataServiceConfig) -> None:
    """Removes the file of an ended job, so that no training job finds it, unless another job has replaced it."""
    with contextlib.suppress(OSError, ValueError):
        if TfDataServiceConfig.read(configfile).key == config.key:
            os.unlink(configfile)


def _chosen_interface() -> Optional[Sequence[str]]:
    """The interface that the user has chosen for the compute job; None for all. The launcher chooses the loopback
    interface for a job on one host, where the training job on other hosts could not reach the service."""
    name = os.environ.get("HOROVOD_GLOO_IFACE", "")
    return None if not name or name in network.get_local_intfs() else (name,)


def argument_parser(command: str, description: str) -> argparse.ArgumentParser:
    """The arguments of a compute job that this command starts."""
    parser = argparse.ArgumentParser(
        prog=command[command.index("python") :],
        description=description,
        epilog=f"Example:\n  {command} /shared/compute.json\n\n{TRAINING_JOB}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("configfile", help="file to write, with the addresses and the key of this job")
    parser.add_argument(
        "--dispatchers",
        type=int,
        default=1,
        help="number of dispatchers, each of which has an equal number of workers (default: 1)",
    )
    parser.add_argument(
        "--dispatcher-side", choices=SIDES, default=COMPUTE, help="job that runs the dispatchers (default: compute)"
    )
    parser.add_argument(
        "--timeout", type=int, default=60, help="seconds until the dispatchers and workers have started (default: 60)"
    )
    return parser


if __name__ == "__main__":
    program = "horovodrun -np 4 python -m horovod.tensorflow.data.compute_worker"
    arguments = argument_parser(program, "Computes tf.data datasets for a training job.").parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the file is removed
    main(arguments.dispatchers, arguments.dispatcher_side, arguments.configfile, arguments.timeout)
