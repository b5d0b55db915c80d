"""The rows of memory: the driver tells how much of the GPU's memory is in use before and after Farandole uses it. What
other processes take meanwhile is counted as well."""

from __future__ import annotations

from typing import Any, Dict

import farandole.numpy as hvd
import numpy
from device_arrays import DeviceArray, Stream
from farandole import _native
from farandole.common import job, operations

from benchmarks.cuda.devices import memory_in_use

MIB = 1 << 20
SUM = 1
SETTLED = 5
"""Resets after which the memory must not grow."""


def memory(worker: Any) -> Dict[str, Any]:
    elements = 1000 if worker.is_tiny else 16 * MIB
    with Stream() as stream:
        arrays = [DeviceArray(numpy.zeros(elements, "float32")) for _ in range(2)]
        stream.synchronize()
        at_first = memory_in_use()
        hvd.init()
        hvd.allreduce(numpy.zeros(1000, "float32"), name="host")
        before = memory_in_use()
        reduce(arrays)
        after = memory_in_use()
        figures = {"before": [before - at_first], "after": [after - at_first]}
        in_use = [reset(arrays) for _ in range(SETTLED + 2 if worker.is_tiny else 50)]
        figures["growth"] = [in_use[-1] - in_use[SETTLED - 1]]
    with open("/proc/self/maps") as maps:
        has_nccl = "libnccl" in maps.read()
    return {
        "figures": {name: [size / MIB for size in sizes] for name, sizes in figures.items()},
        "remark": "NCCL is loaded, so what it takes itself is included" if has_nccl else "",
    }


def reduce(arrays: list[DeviceArray]) -> None:
    """A scaled allreduce, so that the GPU has work also in a job of one rank."""
    request = _native.Request(operations.ALLREDUCE, "allreduce", SUM, -1, 0.5)
    _native.wait_all(list(job.runtime.submit_group(request, "memory", arrays, arrays, 0)))
    arrays[0].read()


def reset(arrays: list[DeviceArray]) -> int:
    hvd.shutdown()
    hvd.init()
    reduce(arrays)
    return memory_in_use()
