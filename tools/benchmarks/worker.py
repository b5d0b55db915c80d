"""One process of a benchmark: joins its stack's job, then runs the commands of the coordinator, one at a time.

    python -m benchmarks.worker STACK SOCKET

Commands and answers are lines of JSON. Between commands the process sleeps in a read, so that the stack that is being
measured has the machine to itself. The process uses only the standard library and PyTorch, so it runs in any
interpreter that has these.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.stacks import Stack, Tensors, stack_named
from benchmarks.works import Work, named_tensors

Answer = dict[str, Any]


def cpu_seconds() -> float:
    """Processor seconds of all threads of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def status_kib(*fields: str) -> dict[str, int]:
    lines = Path("/proc/self/status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in lines if ":" in line)
    return {field: int(values[field].split()[0]) for field in fields}


def shared_kib() -> int:
    """This process's proportional share of shared memory: each page is divided by the number of its mappings."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss_Shmem:"):
            return int(line.split()[1])
    return 0


def wakeups() -> int:
    """The number of voluntary context switches of all threads of this process."""
    total = 0
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the thread has ended
            for line in (task / "status").read_text().splitlines():
                if line.startswith("voluntary_ctxt_switches"):
                    total += int(line.split()[1])
    return total


def yardstick() -> float:
    """Seconds of a fixed loop in the interpreter, which shows the current speed of the processor.

    A virtual processor shares its core with other virtual machines, and may run at half speed for seconds.
    """
    counts: dict[int, int] = {}
    begin = time.perf_counter()
    for step in range(5000):
        counts[step & 1023] = step
    return time.perf_counter() - begin


def expected(work: Work, size: int) -> list[float]:
    """The values of equal pieces of the result, if every rank's input is its rank plus one."""
    if work.operation in ("allgather", "alltoall"):
        return [float(rank + 1) for rank in range(size)]
    return [1.0] if work.operation == "broadcast" else [size * (size + 1) / 2]


def is_made_of(output: Any, values: list[float]) -> bool:
    pieces = output.reshape(len(values), -1)
    return all(bool((piece == value).all()) for piece, value in zip(pieces, values))


class Worker:
    def __init__(self, stack: Stack | None) -> None:
        self.stack = stack

    def tensors_of(self, work: Work) -> Tensors:
        import torch

        return [torch.zeros(elements) for elements in work.elements]

    def load(self) -> Answer:
        if self.stack is not None:
            self.stack.load()
        return {}

    def init(self) -> Answer:
        assert self.stack is not None
        begin = time.monotonic()
        self.stack.start()
        return {"seconds": time.monotonic() - begin, "rank": self.stack.rank(), "size": self.stack.size()}

    def check(self, work: Work) -> Answer:
        """Whether the results are correct if every rank's input is its rank plus one."""
        assert self.stack is not None
        tensors = self.tensors_of(work)
        for tensor in tensors:
            tensor.fill_(self.stack.rank() + 1)
        outputs = self.stack.ready(work, tensors)()
        wanted = expected(work, self.stack.size())
        return {"good": all(output.numel() % len(wanted) == 0 and is_made_of(output, wanted) for output in outputs)}

    def time(self, work: Work) -> Answer:
        """Wall-clock seconds and this rank's processor seconds for a work: the mean of one block."""
        assert self.stack is not None
        do = self.stack.ready(work, self.tensors_of(work))
        gc.collect()  # before the ranks synchronize: it takes milliseconds, and not the same on all
        gc.disable()
        self.warm_up(do, work.warm)
        cpu = cpu_seconds()
        begin = time.perf_counter()
        for _ in range(work.count):
            do()
        wall = time.perf_counter() - begin
        cpu = cpu_seconds() - cpu
        gc.enable()
        return {"wall": wall / work.count, "cpu": cpu / work.count}

    def warm_up(self, do: Callable[[], Tensors], times: int) -> None:
        """Repeats a work so that its pages are touched, its names are negotiated, and the ranks are synchronized."""
        for _ in range(times):
            do()

    def overhead(self, many: Work, one: Work, blocks: int) -> Answer:
        """For each block: the seconds of `many` and of `one`, and of the slowest yardstick around them."""
        assert self.stack is not None
        turns = [(work, self.stack.ready(work, self.tensors_of(work))) for work in (many, one)]
        gc.collect()
        gc.disable()
        self.warm_up(turns[0][1], many.warm)
        measured = []
        for _ in range(blocks):
            yardsticks = [yardstick()]
            walls = []
            for work, do in turns:
                do()  # synchronizes the ranks
                begin = time.perf_counter()
                for _ in range(work.count):
                    do()
                walls.append((time.perf_counter() - begin) / work.count)
                yardsticks.append(yardstick())
            measured.append([*walls, max(yardsticks)])
        gc.enable()
        return {"blocks": measured}

    def submit(self, work: Work) -> Answer:
        """Seconds that one asynchronous call takes, without the wait that follows."""
        assert self.stack is not None
        hvd: Any = getattr(self.stack, "hvd")  # noqa: B009 - only stacks with Horovod's interface have it
        named = named_tensors(work, self.tensors_of(work))
        best = float("inf")
        for _ in range(work.warm + work.count):
            begin = time.perf_counter()
            handles = [hvd.allreduce_async_(tensor, name=name, op=hvd.Sum) for tensor, name in named]
            best = min(best, time.perf_counter() - begin)
            for handle in handles:
                hvd.synchronize(handle)
        return {"seconds": best / len(named)}

    def memory(self, work: Work) -> Answer:
        """Peak memory in KiB after one work. Without a stack the tensors are only made and written."""
        tensors = self.tensors_of(work)
        if self.stack is not None:
            self.stack.ready(work, tensors)()
        for tensor in tensors:
            tensor.add_(1)
        return {**status_kib("VmHWM", "RssShmem"), "shared": shared_kib()}

    def idle(self, seconds: float) -> Answer:
        """Processor time and wake-ups of this process while it is idle. The one wake-up of the sleep is
        subtracted."""
        before, cpu = wakeups(), cpu_seconds()
        time.sleep(seconds)
        return {"cores": (cpu_seconds() - cpu) / seconds, "wakeups": (wakeups() - before - 1) / seconds}

    def stop(self) -> Answer:
        if self.stack is not None:
            self.stack.stop()
        return {}

    def answer(self, command: Answer) -> Answer:
        do = command.pop("do")
        for argument, value in command.items():
            if isinstance(value, dict):
                command[argument] = Work(**{**value, "elements": tuple(value["elements"])})
        result: Answer = getattr(self, do)(**command)
        return result


def main() -> None:
    import torch

    torch.set_num_threads(1)
    name, where = sys.argv[1:]
    worker = Worker(None if name == "nothing" else stack_named(name))
    with socket.socket(socket.AF_UNIX) as connection, connection.makefile("rw") as lines:
        connection.connect(where)
        lines.write(json.dumps({"stack": name, "pid": os.getpid()}) + "\n")
        lines.flush()
        while line := lines.readline():
            command = json.loads(line)
            try:
                reply = worker.answer(dict(command))
            except Exception as problem:
                reply = {"problem": f"{type(problem).__name__}: {problem}"}
            lines.write(json.dumps(reply) + "\n")
            lines.flush()
            if command["do"] == "stop":
                break


if __name__ == "__main__":
    try:
        main()
    except ConnectionError:  # the coordinator has ended, and with it the benchmark
        sys.exit(1)
