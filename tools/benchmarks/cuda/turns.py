"""Blocks of the contestants in turns, and the time of a block on the GPU and on the host."""

from __future__ import annotations

import gc
import time
from typing import Any, Callable, Dict, List

Step = Callable[[], Any]
Block = Callable[[], float]
"""Carries out some steps, and returns the seconds of one."""

FIRST_LINKS = 16
MOST_LINKS = 768
"""Of the work that occupies the GPU; a driver that has this much in a stream takes more without waiting."""


class Turns:
    """The number of rounds, and the time after which no round is begun. `agree` tells whether all ranks of the job say
    yes, so that they carry out the same rounds."""

    def __init__(self, rounds: int, seconds: float, agree: Callable[[bool], bool]) -> None:
        self.rounds = rounds
        self.seconds = seconds
        self.agree = agree

    def take(self, contestants: Dict[str, Block]) -> Dict[str, List[float]]:
        """The seconds of each contestant, one value a round. Odd rounds have the opposite order (ABBA), so that a drift
        of the machine affects all alike."""
        deadline = time.monotonic() + self.seconds
        for block in contestants.values():
            block()  # warm-up: names are negotiated, kernels are loaded, memory is taken
        samples: Dict[str, List[float]] = {name: [] for name in contestants}
        gc.collect()
        gc.disable()
        try:
            for number in range(self.rounds):
                names = list(contestants)
                for name in names if number % 2 == 0 else reversed(names):
                    samples[name].append(contestants[name]())
                if not self.agree(time.monotonic() < deadline):
                    break
        finally:
            gc.enable()
        return samples


class GpuTime:
    """A block whose time is taken on the GPU, by events around the repeated step.

    The GPU is occupied first, so that the host has submitted the steps before the GPU reaches them, and the time
    between the events is that of the GPU's work. Where the GPU has to wait for the host all the same, the time includes
    that, and `waits` counts such blocks. With `is_occupied` False the time always includes the host's.
    """

    def __init__(self, device: Any, step: Step, count: int, is_occupied: bool = True) -> None:
        self.device = device
        self.step = step
        self.count = count
        self.links = FIRST_LINKS if is_occupied else 0
        self.blocks = 0
        self.waits = 0

    def __call__(self) -> float:
        seconds, waited = self.measure()
        while waited and 0 < self.links < MOST_LINKS:
            self.links = min(2 * self.links, MOST_LINKS)
            seconds, waited = self.measure()
        self.blocks += 1
        self.waits += waited
        return seconds

    def measure(self) -> tuple[float, bool]:
        """Seconds of a step, and whether the GPU reached the steps before the host had submitted all of them."""
        device = self.device
        begin, end = device.event(), device.event()
        device.synchronize()
        device.occupy(self.links)
        begin.record()
        for _ in range(self.count):
            self.step()
        waited = begin.query()
        end.record()
        device.synchronize()
        return device.seconds_between(begin, end) / self.count, waited


def remark(blocks: Dict[str, GpuTime]) -> str:
    """Names the contestants for whose host the GPU had to wait."""
    late = [f"{name} in {block.waits} of {block.blocks} blocks" for name, block in blocks.items() if block.waits]
    return f"times include the host's, for which the GPU waited: {', '.join(late)}" if late else ""


class HostTime:
    """A block whose time is taken on the host: that of the calls, without the GPU's work behind them."""

    def __init__(self, device: Any, step: Step, count: int) -> None:
        self.device = device
        self.step = step
        self.count = count

    def __call__(self) -> float:
        self.step()
        self.device.synchronize()
        begin = time.perf_counter()
        for _ in range(self.count):
            self.step()
        seconds = time.perf_counter() - begin
        self.device.synchronize()
        return seconds / self.count
