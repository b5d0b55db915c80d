"""Functions of jobs on Spark that fail. Each is defined inside of a function, so that it is pickled by value."""

from __future__ import annotations

from typing import Any, Callable


def worker_that_fails() -> Callable[[], None]:
    """A function for a job of two workers, whose rank 1 raises an exception."""

    def fail() -> None:
        import horovod.numpy as hvd

        hvd.init()
        if hvd.rank() == 1:
            raise KeyError("labels")
        hvd.barrier()

    return fail


def elastic_worker_that_fails() -> Callable[[], None]:
    """The same for an elastic job: rank 1 fails after a step whenever there are two workers."""

    def train() -> None:
        import horovod.numpy as hvd

        hvd.init()
        state = hvd.elastic.NumPyState(step=0)

        @hvd.elastic.run
        def loop(state: Any) -> None:
            import numpy

            while True:
                hvd.allreduce(numpy.ones(1), name="step")
                state.commit()
                if hvd.size() == 2 and hvd.rank() == 1:
                    raise KeyError("labels")

        loop(state)

    return train
