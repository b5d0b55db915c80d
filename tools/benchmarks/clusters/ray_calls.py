"""Calls of RayExecutor beside those of bare actors: `python ray_calls.py ROUNDS NAME…` prints JSON."""

from __future__ import annotations

import json
import statistics
import sys
import time
from typing import Any, Callable

import horovod.ray
import ray

WORKERS = 4
CALLS = 100
"""Of an empty function in each round."""


class _Bare:
    """An actor that does nothing."""

    def run(self) -> None: ...


Bare: Any = ray.remote(num_cpus=1)(_Bare)


def nothing(*_: Any) -> None: ...


def join(*_: Any) -> None:
    import horovod.numpy as hvd

    hvd.init()


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """The time in seconds, and the result."""
    begin = time.perf_counter()
    result = function()
    return time.perf_counter() - begin, result


def bare_actors() -> list[Any]:
    actors: list[Any] = [Bare.remote() for _ in range(WORKERS)]
    ray.get([each.run.remote() for each in actors])
    return actors


def executor() -> Any:
    settings = horovod.ray.RayExecutor.create_settings(timeout_s=60)
    made = horovod.ray.RayExecutor(settings, num_workers=WORKERS)
    made.start()
    made.run(join)
    return made


def end(actors: list[Any]) -> None:
    for each in actors:
        ray.kill(each)
    deadline = time.monotonic() + 60
    while ray.available_resources().get("CPU", 0) < ray.cluster_resources()["CPU"] and time.monotonic() < deadline:
        time.sleep(0.05)  # the next one must not wait for their processors


def start(rounds: int) -> dict[str, list[float]]:
    samples: dict[str, list[float]] = {"ours": [], "other": []}
    for _ in range(rounds + 1):
        seconds, actors = timed(bare_actors)
        samples["other"].append(seconds)
        end(actors)
        seconds, running = timed(executor)
        samples["ours"].append(seconds)
        running.shutdown()
        end([])
    return {name: values[1:] for name, values in samples.items()}  # the first round fills caches


def execute(rounds: int) -> dict[str, list[float]]:
    samples: dict[str, list[float]] = {"ours": [], "other": []}
    actors, running = bare_actors(), executor()
    for _ in range(rounds):
        for name, call in (
            ("other", lambda: ray.get([each.run.remote() for each in actors])),
            ("ours", lambda: running.execute(nothing)),
        ):
            call()
            samples[name].append(statistics.median(timed(call)[0] for _ in range(CALLS)))
    running.shutdown()
    end(actors)
    return samples


def main() -> None:
    rounds, names = int(sys.argv[1]), sys.argv[2:]
    size = {"num_cpus": 2 * WORKERS, "object_store_memory": 100 << 20}
    ray.init(address="local", include_dashboard=False, logging_level="error", **size)
    results = {each.__name__: each(rounds) for each in (start, execute) if each.__name__ in names}
    ray.shutdown()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
