"""A driver whose cluster may not use the disk: it prints the error of a result that does not fit into the object store,
and the result of the next call."""

from __future__ import annotations

import numpy
import ray
from conftest import SETTINGS, STORE_BYTES
from horovod.ray import RayExecutor


def main() -> None:
    no_disk = {"local_fs_capacity_threshold": 1e-9}  # Ray takes a disk that is fuller than this for full
    ray.init(
        address="local",
        num_cpus=1,
        include_dashboard=False,
        object_store_memory=STORE_BYTES,
        log_to_driver=False,
        logging_level="ERROR",
        _system_config=no_disk,
    )
    executor = RayExecutor(SETTINGS, num_workers=1)
    executor.start()
    try:
        executor.run(lambda: numpy.zeros(2 * STORE_BYTES, numpy.uint8))
    except RuntimeError as problem:
        print(problem)
    print("then:", executor.run(lambda: 5))
    executor.shutdown()


if __name__ == "__main__":
    main()
