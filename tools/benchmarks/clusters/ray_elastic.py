"""Changes of an elastic job on Ray beside the creation of a bare actor: `python ray_elastic.py ROUNDS NAME…` prints
JSON."""

from __future__ import annotations

import json
import statistics
import sys
import time
from typing import Any

import horovod.ray
import numpy
import ray
from horovod.runner.elastic.discovery import FixedHosts

WORKERS = 3
HOSTS = [f"host-{number}" for number in range(WORKERS + 1)]
"""The names under which the job knows this node. There is one more than workers, so that a new worker can start at
once."""
STEP_S = 0.01
"""How long each step computes."""
STEPS = 50
"""The number of steps with all workers before one is killed, and again after a new one has joined."""


class _Bare:
    """An actor that does nothing."""

    def run(self) -> None: ...


Bare: Any = ray.remote(num_cpus=1)(_Bare)


def train() -> list[tuple[float, int]]:
    """Trains until a worker was lost and replaced. Returns the time when each step ended, and its number of workers."""
    import horovod.numpy as hvd
    from horovod.ray import ray_logger

    hvd.init()
    steps: list[tuple[float, int]] = []
    offered: list[bool] = []

    @hvd.elastic.run
    def loop(state: Any) -> None:
        while state.again < STEPS:
            time.sleep(STEP_S)
            hvd.allreduce(numpy.ones(1))
            steps.append((time.time(), hvd.size()))
            state.was_small = state.was_small or (state.steps >= STEPS and hvd.size() < WORKERS)
            state.steps += hvd.size() == WORKERS
            state.again += hvd.size() == WORKERS and state.was_small
            state.commit()
            if state.steps >= STEPS and hvd.rank() == WORKERS - 1 and not state.was_small and not offered:
                offered.append(True)
                ray_logger.log(ray.get_runtime_context().current_actor)

    loop(hvd.elastic.ObjectState(hvd.broadcast_object, hvd.rank, steps=0, again=0, was_small=False))
    return steps


def change() -> tuple[float, float]:
    """Seconds from the kill of a worker to the next step of the others, and to the first step with a new worker."""
    settings = horovod.ray.RayExecutor.create_settings(timeout_s=60)
    settings.discovery = FixedHosts(dict.fromkeys(HOSTS, 1))
    executor = horovod.ray.RayExecutor(settings, min_workers=2, max_workers=WORKERS, override_discovery=False)
    executor.start()
    killed: list[float] = []

    def kill(actor: Any) -> None:
        if not killed:
            killed.append(time.time())
            ray.kill(actor)

    steps, *_ = executor.run(train, callbacks=[kill])
    executor.shutdown()
    after = [(at - killed[0], size) for at, size in steps if at > killed[0]]
    alone = next(at for at, size in after if size < WORKERS)
    return alone, next(at for at, size in after if size == WORKERS and at > alone)


def bare() -> float:
    """Seconds until a new actor has answered its first call."""
    begin = time.perf_counter()
    actor = Bare.remote()
    ray.get(actor.run.remote())
    seconds = time.perf_counter() - begin
    ray.kill(actor)
    return seconds


def main() -> None:
    rounds, names = int(sys.argv[1]), sys.argv[2:]
    resources = {f"node:{host}": 100 for host in HOSTS}
    size = {"num_cpus": 2 * WORKERS, "object_store_memory": 100 << 20, "resources": resources}
    ray.init(address="local", include_dashboard=False, logging_level="error", log_to_driver=False, **size)
    bare()
    created: list[float] = []
    alone: list[float] = []
    joined: list[float] = []
    for _ in range(rounds):
        created.append(statistics.median(bare() for _ in range(3)))
        lost, replaced = change()
        alone.append(lost)
        joined.append(replaced)
    ray.shutdown()
    results = {"survive": {"ours": alone, "other": [0.0] * rounds}, "join": {"ours": joined, "other": created}}
    print(json.dumps({name: results[name] for name in names}))


if __name__ == "__main__":
    main()
