"""Asks the key-value store of a job. The process must have the job's secret; see ``http_server``."""

from __future__ import annotations

import os
import pickle
from typing import Any

from farandole.runner.common.util import network
from farandole.runner.functions import job_secret
from farandole.runner.http import http_server

ANSWER_S = 60.0
"""How long a store may be silent."""


def read_data_from_kvstore(addr: str, port: int, scope: str, key: str) -> Any:
    """The value that ``put_data_into_kvstore`` has stored; ``RuntimeError`` if there is none."""
    response = _ask(addr, port, http_server.GetRequest(scope, key))
    if response.value is None:
        raise RuntimeError(
            f"the key-value store at {addr}:{port} has no value for {scope}/{key}; read it after it was stored"
        )
    return pickle.loads(response.value)  # a holder of the secret has stored it


def put_data_into_kvstore(addr: str, port: int, scope: str, key: str, value: Any) -> None:
    """Stores a value, which is pickled by cloudpickle; ``RuntimeError`` if that is not possible."""
    import cloudpickle

    if not _ask(addr, port, http_server.PutRequest(scope, key, cloudpickle.dumps(value))).is_stored:
        raise RuntimeError(
            f"the key-value store at {addr}:{port} has no room for {scope}/{key}; it holds at most "
            f"{http_server.MOST_STORED_BYTES} bytes"
        )


def _ask(addr: str, port: int, request: Any) -> Any:
    secret = job_secret.secret_of(os.environ)
    if secret is None:
        raise RuntimeError(
            f"the key-value store at {addr}:{port} answers only holders of the job's secret; set FARANDOLE_SECRET_FILE "
            "to the file that its process uses"
        )
    try:
        key = http_server.store_key(secret)
        client = network.BasicClient(http_server.STORE_NAME, {"": [(addr, port)]}, key, 0)
        return client._send_to((addr, port), request, ANSWER_S)
    except (network.NoValidAddressesFound, OSError, ValueError) as problem:
        raise RuntimeError(f"the key-value store at {addr}:{port} cannot be used: {problem}") from problem
