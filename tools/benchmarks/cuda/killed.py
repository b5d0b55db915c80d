"""A worker of an elastic job whose tensors are in GPU memory. The last worker kills itself in a collective.

The output is that of `benchmarks.elastic`, whose functions read it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import farandole.numpy as hvd
import numpy
from device_arrays import DeviceArray, Stream
from farandole import _native
from farandole.common import job, operations

SUM = 1


def milliseconds() -> float:
    return time.monotonic() * 1e3


def reduce(array: DeviceArray, is_victim: bool) -> None:
    handle = job.runtime.submit(_native.Request(operations.ALLREDUCE, "allreduce", SUM), "gradients", array, array, 0)
    if is_victim:
        print(f"KILL {milliseconds():.3f}", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    handle.wait()


class Progress:
    """The number of members at the last step, and the times that the lines of the output tell."""

    def __init__(self) -> None:
        self.size = 0
        self.last = 0.0
        self.done = 0

    def note(self, size: int, began: int, step: int) -> None:
        if size != self.size:
            print(f"GO {self.size} {size} {self.last:.3f} {milliseconds():.3f} {self.done - began}", flush=True)
        self.size, self.last, self.done = size, milliseconds(), step


def main(ranks: int, steps: int, elements: int) -> None:
    hvd.init()
    state: Any = hvd.elastic.NumPyState(step=0)
    progress = Progress()
    stream = Stream()

    @hvd.elastic.run
    def train(state: Any) -> None:
        began = state.step
        array = DeviceArray(numpy.zeros(elements, "float32"))
        with stream:
            while hvd.size() == ranks or state.step < began + steps:
                try:
                    reduce(array, hvd.size() == ranks and hvd.rank() == ranks - 1 and state.step == steps)
                except hvd.HorovodInternalError:
                    print(f"TOLD {milliseconds():.3f}", flush=True)
                    raise
                stream.synchronize()
                state.step += 1
                progress.note(hvd.size(), began, state.step)
                state.commit()

    train(state)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
