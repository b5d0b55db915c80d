"""Drivers outside the cluster, which are connected by Ray Client (``ray://``)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Iterator, List

import psutil
import pytest
from conftest import DEADLINE_S, wait_until
from ray.cluster_utils import Cluster

DRIVER = Path(__file__).with_name("client_driver.py")
MODULES = Path(__file__).parent


@pytest.fixture
def server(cluster: Cluster, tmp_path: Path) -> Iterator[str]:
    """The address of a server of Ray Client, which is a driver of the cluster."""
    # The server takes a free port, which only its process knows: a port that was free before may be taken meanwhile.
    words = ["--host", "127.0.0.1", "--port", "0", "--mode", "specific-server", "--address", cluster.address]
    output = tmp_path / "server"
    with output.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "ray.util.client.server", *words], stdout=file, stderr=subprocess.STDOUT
        )
    try:
        wait_until(lambda: ports_of(process) != [] or process.poll() is not None, output.read_text)
        assert process.poll() is None, output.read_text()
        (port,) = ports_of(process)
        yield f"ray://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(DEADLINE_S)


def ports_of(process: subprocess.Popen) -> List[int]:
    """Those on which a process waits for connections."""
    connections = psutil.Process(process.pid).net_connections()
    return [each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN]


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_is_left")
def test_a_driver_behind_ray_client_needs_no_return_connection(server: str) -> None:
    ran = subprocess.run(
        [sys.executable, str(DRIVER), server],
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    for kind in ("fixed", "elastic"):
        assert found[kind]["results"] == [[0, 5.0], [1, 5.0]]
        assert found[kind]["logged"] == [[2, []]] * 2  # the driver waits for connections on no port
        assert re.search(r"rank \d on node (?s:.*)raised LookupError: no such data set", found[kind]["problem"])
    assert "TimeoutError: the cluster did not reserve 99 bundles" in found["refused"]
    assert "4 of 6 CPU free" in found["refused"]
