"""A rank of a job: measures its rows one after the other, and appends each result to its file, as a line of JSON.

    horovodrun -np N python -m benchmarks.cuda.worker FOLDER MEASURES OPTIONS

MEASURES are names with commas between them, and OPTIONS are JSON: `rounds`, `seconds` for each row, `port` for
torch.distributed, `is_tiny`, and `on_host` where PyTorch's rows run with host tensors.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any, Dict

import farandole.numpy as hvd
import numpy

from benchmarks.cuda import devices, host_runtime
from benchmarks.cuda.rows import Missing
from benchmarks.cuda.turns import Turns

PLACES = {
    "gradients": "on_driver:gradients",
    "memory": "memory:memory",
    "compressed": "on_torch:compressed",
    "small": "on_torch:small",
    "host": "on_torch:host",
    "training": "on_torch:training",
    "64 MiB": "two_ranks:large",
    "ResNet-50": "two_ranks:gradients",
    "training 2": "two_ranks:training",
}
"""By measurement: the module with its function. A job imports only its own, some of which need PyTorch."""


class Worker:
    """What the rows need to know and to share."""

    def __init__(self, options: Dict[str, Any]) -> None:
        self.options = options
        self.is_tiny = bool(options["is_tiny"])
        self.link_bytes = 1024 if self.is_tiny else devices.LINK_BYTES
        self._torch_device: Any = None

    def turns(self) -> Turns:
        return Turns(self.options["rounds"], self.options["seconds"], self.agree)

    def agree(self, has_time: bool) -> bool:
        """Whether all ranks have time left."""
        return bool(hvd.allreduce(numpy.array([has_time], "int32"), name="has time", op=hvd.Min)[0])

    # ---- for rows on PyTorch's tensors

    @property
    def torch(self) -> Any:
        return importlib.import_module("torch")

    @property
    def hvd(self) -> Any:
        return importlib.import_module("horovod.torch")

    def torch_device(self) -> devices.TorchDevice:
        if self._torch_device is None:
            kind, runtime = ("cpu", host_runtime) if self.options["on_host"] else ("cuda", self.torch.cuda)
            self._torch_device = devices.TorchDevice(self.torch, kind, runtime, self.link_bytes)
        return self._torch_device

    def own_backend(self) -> str:
        """PyTorch's own for one rank on this device."""
        return "gloo" if self.options["on_host"] else "nccl"

    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.options['port']}"

    def set_variables(self) -> None:
        """Those with which torch.distributed finds the other ranks."""
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.options["port"]), "GLOO_SOCKET_IFNAME": "lo"}
        os.environ.update({**shared, "RANK": str(hvd.rank()), "WORLD_SIZE": str(hvd.size())})


def main() -> None:
    folder, measures, options = sys.argv[1:]
    worker = Worker(json.loads(options))
    names = measures.split(",")
    if "memory" not in names:  # whose first figure is taken before init()
        hvd.init()
    with open(f"{folder}/{os.environ['HOROVOD_RANK']}", "a") as results:
        for name in names:
            module, function = PLACES[name].split(":")
            try:
                measure = getattr(importlib.import_module(f"benchmarks.cuda.{module}"), function)
                result: Dict[str, Any] = measure(worker)
            except Missing as reason:
                result = {"missing": str(reason)}
            except Exception as problem:  # noqa: BLE001  # the other rows can still be measured
                result = {"problem": f"{type(problem).__name__}: {problem}"}
            results.write(json.dumps({"measure": name, **result}) + "\n")
            results.flush()


if __name__ == "__main__":
    main()
