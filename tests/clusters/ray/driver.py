"""A driver of its own process, which a test ends: ``driver.py fixed|elastic PATH``. Its workers run until they are
ended. It writes a line to PATH when all of them are members, and another one after ``shutdown()``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import ray
from horovod.ray import RayExecutor, ray_logger


def join_and_wait() -> None:
    import threading

    import farandole.numpy as hvd

    hvd.init()
    ray_logger.log(hvd.size())
    threading.Event().wait()


def main() -> None:
    kind, path = sys.argv[1:]
    ray.init(address=os.environ["ADDRESS"], log_to_driver=False, logging_level="ERROR")
    sizes = {"num_workers": 2} if kind == "fixed" else {"min_workers": 2, "max_workers": 2}
    executor = RayExecutor(RayExecutor.create_settings(), **sizes)
    joined = []

    def see(size: int) -> None:
        joined.append(size)
        if joined == [2, 2]:
            Path(path).write_text("joined\n")

    try:
        executor.start()
        executor.run(join_and_wait, callbacks=[see])
    except KeyboardInterrupt:
        executor.shutdown()
        with Path(path).open("a") as file:
            file.write("shut down\n")


if __name__ == "__main__":
    main()
