"""A driver outside the cluster, connected by Ray Client: ``client_driver.py ADDRESS``. Prints what it has found as
JSON."""

from __future__ import annotations

import json
import sys
from typing import Any, Callable, Dict, List, Set, Tuple

import numpy
import psutil
import ray
from horovod.ray import RayExecutor, ray_logger


class Model:
    """An object of each worker."""

    def __init__(self, start: float) -> None:
        self.start = start


def total(model: Model) -> Tuple[int, float]:
    """The rank, and a sum over the ranks."""
    import farandole.numpy as hvd

    hvd.init()
    ray_logger.log(hvd.size())
    return hvd.rank(), float(hvd.allreduce(numpy.full(1, model.start), op=hvd.Sum)[0])


def fail(_: Any) -> None:
    raise LookupError("no such data set")


def ports() -> Set[int]:
    """Those on which this process and its children wait for connections."""
    here = psutil.Process()
    connections = [each for process in [here, *here.children(True)] for each in process.net_connections()]
    return {each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN}


def found_by(executor: RayExecutor) -> Dict[str, Any]:
    """Of a job with two workers."""
    logged: List[Tuple[int, List[int]]] = []
    executor.start(Model, [2.5])
    try:
        results = executor.execute(total, callbacks=[lambda size: logged.append((size, sorted(ports())))])
        return {"results": results, "logged": logged, "problem": message_of(lambda: executor.execute(fail))}
    finally:
        executor.shutdown()


def message_of(call: Callable[[], Any]) -> str:
    try:
        call()
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    return "it was successful"


def main() -> None:
    ray.init(sys.argv[1], logging_level="ERROR", log_to_driver=False)
    settings = RayExecutor.create_settings(placement_group_timeout_s=200)
    hasty = RayExecutor.create_settings(placement_group_timeout_s=1)
    found = {
        "fixed": found_by(RayExecutor(settings, num_workers=2)),
        "elastic": found_by(RayExecutor(settings, min_workers=2, max_workers=2)),
        "refused": message_of(RayExecutor(hasty, num_workers=99).start),
    }
    ray.shutdown()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
