"""A placer of your own: starts the agents of a job as child processes, as a cluster would on its nodes.

python placer.py
"""

import subprocess
from typing import Callable, List, Optional

from farandole.runner import placing


class ChildProcesses:
    """Places are child processes of this one. Yours may be tasks of a cluster."""

    def __init__(self, names: List[str]) -> None:
        self.names = names
        self.agents: List[subprocess.Popen] = []
        self.problem: Optional[Exception] = None
        self.wake: Callable[[], None] = lambda: None

    def start(self, launcher: str, secret: str) -> None:
        for name in self.names:
            command = placing.agent_command(launcher, name, dial_timeout_s=30)
            agent = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
            agent.stdin.write(secret + "\n")
            agent.stdin.flush()  # it stays open, because the agent ends with its standard input
            self.agents.append(agent)

    def connected(self, place: str) -> None:
        print(f"{place} is there")

    def lost(self, problem: Exception) -> Exception:
        codes = [agent.poll() for agent in self.agents]
        return RuntimeError(f"{problem}\nexit codes of the agents: {codes}")

    def close(self, has_succeeded: bool) -> None:
        for agent in self.agents:
            agent.stdin.close()
            agent.wait(30)


def train(factor):
    import farandole.numpy as hvd
    import numpy

    hvd.init()
    return float(hvd.allreduce(numpy.ones(1) * factor, op=hvd.Sum)[0])


if __name__ == "__main__":
    places = ChildProcesses(["left", "right"])
    options = placing.Options(address="127.0.0.1")
    print(placing.run(train, (2.0,), {}, places, placing.Sizes(len(places.names)), options))  # [4.0, 4.0]
