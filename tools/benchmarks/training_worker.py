"""One process of a group that trains: makes its framework's trainer, then runs the coordinator's commands.

    python -m benchmarks.training_worker "WAY FRAMEWORK BATCH THREADS SMALL" SOCKET

It uses only the standard library and the one framework, so it runs in any interpreter that has the framework.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import sys
import time
from typing import Any

from benchmarks.trainers import OPERATIONS, Trainer, Way, trainer_of

Answer = dict[str, Any]
REPEATED = 5  # in one block of an overhead


class Worker:
    """The coordinator's commands, one method each."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer

    def load(self) -> Answer:
        self.trainer.load()
        return {}

    def init(self) -> Answer:
        self.trainer.join()
        return {}

    def steps(self, count: int) -> Answer:
        """Seconds that `count` steps take, and the loss of the last one."""
        gc.collect()
        begin = time.perf_counter()
        loss = self.trainer.steps(count)
        return {"seconds": time.perf_counter() - begin, "loss": loss}

    def overhead(self, kind: str, blocks: int) -> Answer:
        """Seconds of a small asynchronous operation less the time of moving its bytes, for each block."""
        many, one = self.trainer.operations(kind)
        for _ in range(10):
            many()
        measured = []
        for _ in range(blocks):
            seconds = []
            for do in (many, one):
                do()  # synchronizes the ranks
                begin = time.perf_counter()
                for _ in range(REPEATED):
                    do()
                seconds.append((time.perf_counter() - begin) / REPEATED)
            measured.append((seconds[0] - seconds[1]) / OPERATIONS)
        return {"seconds": measured}

    def stop(self) -> Answer:
        self.trainer.leave()
        return {}


def main() -> None:
    name, where = sys.argv[1:]
    way, framework, batch, threads, small = name.split()
    worker = Worker(trainer_of(framework, Way(way, int(batch), int(threads), small == "small")))
    with socket.socket(socket.AF_UNIX) as connection, connection.makefile("rw") as lines:
        connection.connect(where)
        lines.write(json.dumps({"stack": name, "pid": os.getpid()}) + "\n")
        lines.flush()
        while line := lines.readline():
            command = json.loads(line)
            do = command.pop("do")
            try:
                reply = getattr(worker, do)(**command)
            except Exception as problem:
                reply = {"problem": f"{type(problem).__name__}: {problem}"}
            lines.write(json.dumps(reply) + "\n")
            lines.flush()
            if do == "stop":
                break
    # os._exit, because threads of TensorFlow's own collectives never end.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    try:
        main()
    except ConnectionError:  # the coordinator has ended, and with it the benchmark
        sys.exit(1)
