"""Jobs that compute for themselves and for other jobs, and compute jobs that cannot start."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest
from data_service_configs import config_with
from horovod.runner.common.service.compute_service import ComputeClient, ComputeService
from horovod.runner.common.util import secret
from horovod.runner.common.util.timeout import TimeoutException
from horovod.runner.util import network as interfaces
from launched import Job, clean_environment, needs_launcher, run_script

EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "examples"


def test_a_compute_job_refuses_bad_numbers(tmp_path: Path) -> None:
    from horovod.tensorflow.data.compute_service import compute_worker_fn
    from horovod.tensorflow.data.compute_worker import main

    path = tmp_path / "compute.json"
    with pytest.raises(ValueError, match="has 1 processes and 2 dispatchers; the number of processes must be a mult"):
        main(2, "compute", str(path), 5)
    with pytest.raises(ValueError, match="has 1 processes and 0 dispatchers"):
        main(0, "compute", str(path), 5)
    with pytest.raises(ValueError, match="dispatcher_side must be one of"):
        main(1, "both", str(path), 5)
    with pytest.raises(FileNotFoundError, match="absent"):
        main(1, "compute", str(tmp_path / "absent" / "compute.json"), 5)
    with pytest.raises(ValueError, match="has 1 processes, and its config has 2 dispatchers with 3 workers each"):
        compute_worker_fn(config_with())
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_a_compute_job_ends_when_its_dispatcher_does_not_start(tmp_path: Path) -> None:
    from horovod.tensorflow.data.compute_worker import main

    with pytest.raises(TimeoutException, match="dispatcher 0 was not registered within 1 s"):
        main(1, "training", str(tmp_path / "compute.json"), 1)
    assert os.listdir(tmp_path) == []


def test_a_worker_does_not_start_without_its_dispatcher() -> None:
    """TensorFlow would wait for the dispatcher for ever, and no other thread could run."""
    from horovod.tensorflow.data.compute_service import compute_worker_fn

    key = secret.make_secret_key()
    service = ComputeService(1, 1, key, interfaces.get_local_intfs())
    config = config_with(
        dispatchers=1, workers_per_dispatcher=1, dispatcher_side="training", addresses=service.addresses(), key=key
    )
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        try:
            ComputeClient(service.addresses(), key).register_dispatcher(0, f"grpc://{address}")
            with pytest.raises(ConnectionError, match=f"the dispatcher at {address} cannot be reached from"):
                compute_worker_fn(config)
        finally:
            service.shutdown()


@pytest.mark.slow
@needs_launcher
def test_an_interrupted_compute_job_removes_its_file(tmp_path: Path, jobs: List[Job]) -> None:
    from horovod.tensorflow.data.compute_service import TfDataServiceConfig

    path = str(tmp_path / "compute.json")
    module = [sys.executable, "-m", "horovod.tensorflow.data.compute_worker", path]
    jobs.append(Job(["-np", "2", *module], {**clean_environment(), "TF_CPP_MIN_LOG_LEVEL": "3"}))
    TfDataServiceConfig.read(path, wait_for_file_creation=True)
    jobs[0].process.send_signal(signal.SIGINT)
    assert jobs[0].end() == 130, jobs[0].text
    assert os.listdir(tmp_path) == []


# Each process is a rank of both jobs: it runs `main` in a thread and reads the data itself.
BOTH_JOBS = """
import itertools, json, sys
import tensorflow as tf
import horovod.tensorflow as hvd
from horovod.runner.util.threads import in_thread
from horovod.tensorflow.data.compute_service import TfDataServiceConfig, tf_data_service
from horovod.tensorflow.data.compute_worker import main

hvd.init()
rank, size = hvd.rank(), hvd.size()
dataset = tf.data.Dataset.range(8).map(lambda number: number * 10)


def gathered(values):
    return hvd.allgather_object([int(value) // 10 for value in values])


for number, (side, dispatchers) in enumerate(itertools.product(("compute", "training"), (1, 2))):
    path = f"{FOLDER}/{number}"
    thread = in_thread(main, (dispatchers, side, path, 60))
    config = TfDataServiceConfig.read(path, wait_for_file_creation=True)
    if side == "compute":
        modes = ("distributed_epoch", "parallel_epochs")[: 3 - dispatchers]  # a single worker makes no difference
        for mode, reuse in itertools.product(modes, (False, True)):
            sent = dataset.send_to_data_service(config, rank, size, mode, reuse_dataset=reuse)
            label = [side, dispatchers, mode, "shared" if reuse else "own"]
            print("RESULT", json.dumps([*label, gathered(sent)]), flush=True)
        sent = dataset.repeat().send_to_data_service(config, rank, size, reuse_dataset=True, round_robin=True)
        # A rank that drops its iterator may leave the other ranks without their turn.
        iterator = iter(sent)
        values = gathered(next(iterator) for _ in range(5))
        print("RESULT", json.dumps([side, dispatchers, "round robin", "", values]), flush=True)
        del iterator
    else:
        for repetition in ("first", "second"):
            with tf_data_service(config, rank) as address:
                distribute = tf.data.experimental.service.distribute
                sent = dataset.apply(distribute("distributed_epoch", address, job_name=repetition))
                if rank == 0:
                    values = [int(value) for value in sent]
            # Rank 0 has left the block, and its dispatcher serves the other ranks.
            hvd.allreduce(tf.ones([1]))
            if rank != 0:
                values = [int(value) for value in sent]
            print("RESULT", json.dumps([side, dispatchers, repetition, address, gathered(values)]), flush=True)
    hvd.allreduce(tf.ones([1]))
    if rank == 0:
        config.compute_client().shutdown()
    thread.join(200)
    print("ENDED" if not thread.is_alive() else "GOES ON", flush=True)
"""


@pytest.mark.slow
@needs_launcher
def test_a_job_computes_for_itself_in_threads(tmp_path: Path) -> None:
    script = f"FOLDER = {str(tmp_path)!r}\n" + BOTH_JOBS
    ran = run_script(2, tmp_path, script, TF_CPP_MIN_LOG_LEVEL="3", TF_NUM_INTRAOP_THREADS="1")
    assert ran.returncode == 0, ran.stdout
    results: Dict[Any, List[List[int]]] = {}
    addresses = set()
    for line in re.findall(r"RESULT (.*)", ran.stdout):
        side, dispatchers, kind, other, values = json.loads(line)
        if side == "training":
            addresses.add((dispatchers, other))
            other = ""
        results[side, dispatchers, kind, other] = values
    epoch, twice = list(range(8)), sorted([*range(8)] * 2)

    def received(side: str, dispatchers: int, kind: str, other: str = "") -> List[List[int]]:
        return [sorted(each) for each in results.pop((side, dispatchers, kind, other))]

    def shared(side: str, dispatchers: int, kind: str, other: str = "") -> List[int]:
        return sorted(sum(received(side, dispatchers, kind, other), []))

    # One dispatcher with two workers, which divide an epoch, or compute one each.
    assert received("compute", 1, "distributed_epoch", "own") == [epoch, epoch]
    assert received("compute", 1, "parallel_epochs", "own") == [twice, twice]
    assert shared("compute", 1, "distributed_epoch", "shared") == epoch
    assert shared("compute", 1, "parallel_epochs", "shared") == twice
    turns = results.pop(("compute", 1, "round robin", ""))
    assert [len(each) for each in turns] == [5, 5] and len(set(map(tuple, turns))) == 2
    # A dispatcher with one worker for each rank.
    for reuse in ("own", "shared"):
        assert received("compute", 2, "distributed_epoch", reuse) == [epoch, epoch]
    assert results.pop(("compute", 2, "round robin", "")) == [[0, 1, 2, 3, 4]] * 2
    # The training job runs the dispatchers.
    for repetition in ("first", "second"):
        assert shared("training", 1, repetition) == epoch
        assert received("training", 2, repetition) == [epoch, epoch]
    assert results == {}
    assert sorted(dispatchers for dispatchers, _ in addresses) == [1, 2, 2]
    assert ran.stdout.count("ENDED") == 8, ran.stdout
    assert sorted(os.listdir(tmp_path)) == ["script.py"]


@needs_launcher
@pytest.mark.slow
@pytest.mark.parametrize(
    "example, side",
    [("tensorflow_data_service.py", "compute"), ("tensorflow_data_service_dispatchers.py", "training")],
)
def test_one_job_computes_for_another(tmp_path: Path, jobs: List[Job], example: str, side: str) -> None:
    """The examples: a job that computes with two processes, and one that trains on two."""
    path = tmp_path / "compute.json"
    environment = {**clean_environment(), "TF_CPP_MIN_LOG_LEVEL": "3", "TF_NUM_INTRAOP_THREADS": "1"}
    module = ["-m", "horovod.tensorflow.data.compute_worker", str(path), "--dispatchers", "2"]
    compute = Job(["-np", "2", sys.executable, *module, "--dispatcher-side", side], environment)
    jobs.append(compute)
    training = Job(["-np", "2", sys.executable, str(EXAMPLES / example), str(path), "--epochs", "1"], environment)
    jobs.append(training)
    assert training.end() == 0, training.text + compute.text
    assert compute.end() == 0, compute.text
    accuracy = re.search(r"accuracy on the held-out images: ([\d.]+)", training.text)
    assert accuracy and float(accuracy.group(1)) > 0.7, training.text
    seen = re.findall(r"rank (\d) has seen (\d+) images", training.text)
    assert sorted(seen) == [("0", "1984"), ("1", "1984")], training.text
    assert os.listdir(tmp_path) == []
