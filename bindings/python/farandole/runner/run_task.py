"""A worker that runs a function of the process that has called ``launch_gloo_elastic``.

Function and results travel through the job's key-value store. Started as ``python -m farandole.runner.run_task ADDRESS
PORT``.
"""

from __future__ import annotations

import importlib
import io
import sys
from typing import Any, Callable, List

from farandole.runner.functions import paths, pickling
from farandole.runner.http import http_client, http_server

_SCOPE = "run_task"


class Results:
    """Offers a function to the workers of a job, and takes their results."""

    def __init__(self, function: Callable[[], Any], address: str) -> None:
        """
        :param address: of this host, where workers reach it
        """
        pieces = pickling.pieces_of(function, "command_or_func")
        self._address = address
        self._store = http_server.KVStoreServer(0)
        self._store.address = address
        self._port = self._store.start_server()
        try:
            content = (paths.folders_of_caller(), b"".join(pieces))
            http_client.put_data_into_kvstore(address, self._port, _SCOPE, "function", content)
        except BaseException:
            self.close()
            raise

    def command(self, executable: str) -> List[str]:
        """The command line of a worker."""
        return [executable, "-m", "farandole.runner.run_task", self._address, str(self._port)]

    def of(self, count: int) -> List[Any]:
        """The results of the first ``count`` ranks, in their order."""
        return [
            http_client.read_data_from_kvstore(self._address, self._port, _SCOPE, str(rank)) for rank in range(count)
        ]

    def close(self) -> None:
        """Drops the function and the results."""
        self._store.shutdown_server()


def main() -> None:
    """Runs the function, and stores its result."""
    from farandole.runner import worker

    address, port = sys.argv[1], int(sys.argv[2])
    folders, pickled = http_client.read_data_from_kvstore(address, port, _SCOPE, "function")
    worker.extend_path(folders)
    result = pickling.load(io.BufferedReader(io.BytesIO(pickled)))()
    # An elastic job may have changed the rank meanwhile.
    http_client.put_data_into_kvstore(address, port, _SCOPE, str(worker.place()["rank"]), result)


if __name__ == "__main__":
    # The module's own name, so that objects that are pickled here find it.
    importlib.import_module("farandole.runner.run_task").main()
