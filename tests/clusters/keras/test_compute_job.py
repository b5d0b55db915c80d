"""A compute job of tf.data's service says when it is ready. The test takes the part of its dispatchers and workers."""

from __future__ import annotations

from pathlib import Path

import pytest
from farandole.runner.util import network
from farandole.tensorflow.data.compute_worker import compute_service


@pytest.mark.parametrize(
    ("dispatchers", "workers", "side", "counts"),
    [
        (1, 1, "compute", "1 dispatcher on the compute side, 1 worker"),
        (2, 3, "training", "2 dispatchers on the training side, 6 workers"),
    ],
)
def test_the_service_prints_once_that_its_dispatchers_and_workers_have_started(
    tmp_path: Path, dispatchers: int, workers: int, side: str, counts: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "compute.json")
    with compute_service(dispatchers, workers, side, path, 20, network.get_local_intfs()) as config:
        client = config.compute_client()
        for dispatcher in range(dispatchers):
            client.register_dispatcher(dispatcher, f"grpc://127.0.0.1:{dispatcher + 1}")
            for worker in range(workers):
                assert capfd.readouterr().err == ""
                client.register_worker_for_dispatcher(dispatcher, worker)
        client.register_worker_for_dispatcher(0, 0)  # as a client does that has not received the answer
    assert capfd.readouterr().err == f"farandole: the compute job of {path} is ready: {counts}\n"
