"""An elastic training whose members are on two hosts, with a separate rendezvous that can be killed."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
from pathlib import Path
from typing import Dict

from namespaces import FARANDOLE, Hosts, Process

# The script computes in whole numbers and with the same data on all members, so that the weights do not depend on the
# number of members. After half of the steps, steps change nothing until the file of the first argument exists.
SCRIPT = """
import hashlib, os, sys
import numpy
import farandole.numpy as hvd

over, slot = sys.argv[1], os.environ["HOROVOD_RANK"]
hvd.init()
draw = numpy.random.default_rng(1)
inputs = draw.integers(-100, 100, size=(64, 128))
targets = draw.integers(-10**6, 10**6, size=(64, 32))
state = hvd.elastic.NumPyState(weights=numpy.zeros((128, 32), "int64"), step=0)

def gradient():
    own = (inputs.T @ (inputs @ state.weights - targets)) // 2**20
    return hvd.allreduce(own, op=hvd.Sum, name="gradient") // hvd.size()

@hvd.elastic.run
def train(state):
    print(f"BEGIN slot {slot} of {hvd.size()} pid {os.getpid()}", flush=True)
    while state.step < 40:
        change = gradient()
        is_over = hvd.allreduce(numpy.array([float(os.path.exists(over))]), op=hvd.Max, name="over")[0]
        if state.step != 20 or is_over:
            state.weights -= change
            state.step += 1
        state.commit()

train(state)
print(f"weights {hashlib.sha256(state.weights.tobytes()).hexdigest()}", flush=True)
"""


class ElasticTraining:
    """Slots 0 and 1 are on the first host, slot 2 is on the second; two members suffice."""

    SIZES = ("-np", "3", "--min-np", "2")

    def __init__(self, hosts: Hosts, folder: Path) -> None:
        self.hosts = hosts
        self.over = folder / "over"
        self.journal = folder / "journal"
        self.port = 0
        self.rendezvous = self.start_rendezvous()
        self.job = self._launch(folder)

    def start_rendezvous(self) -> Process:
        """Starts the rendezvous, at its former address and with its journal if it ran before."""
        flags = ["--bind", self.hosts.addresses[0], "--port", str(self.port), "--secret-file", str(self.hosts.secret)]
        command = [FARANDOLE, "rendezvous", *self.SIZES, *flags, "--journal", str(self.journal)]
        self.rendezvous = self.hosts.start(0, command)
        self.port = int(self.rendezvous.read_until(re.escape(self.hosts.addresses[0]) + r":(\d+)\s").group(1))
        return self.rendezvous

    def _launch(self, folder: Path) -> Process:
        program = folder / "train.py"
        program.write_text(SCRIPT)
        first, second = (shlex.join(self.hosts.entering(number)) for number in range(2))
        place = folder / "place"
        place.write_text(
            "#!/bin/sh\nexport HOROVOD_GLOO_IFACE=net0\n"
            f'[ "$HOROVOD_RANK" = 2 ] && export FARANDOLE_HOST_ID=second && exec {second} "$@"\n'
            f'export FARANDOLE_HOST_ID=first; exec {first} "$@"\n'
        )
        place.chmod(0o755)
        address = f"{self.hosts.addresses[0]}:{self.port}"
        command = [FARANDOLE, "run", *self.SIZES, "--rendezvous", address, "-H", "localhost:3"]
        settings = {"FARANDOLE_SECRET_FILE": str(self.hosts.secret), "OMP_NUM_THREADS": "1"}
        return self.hosts.start(0, [*command, str(place), sys.executable, str(program), str(self.over)], settings)

    def members(self, size: int) -> Dict[int, int]:
        """Process ids by slot, once all have begun a generation of this size."""
        begun = rf"BEGIN slot \d+ of {size} pid \d+"
        self.job.read_until(rf"(?s)({begun}.*){{{size}}}")
        found = re.findall(rf"BEGIN slot (\d+) of {size} pid (\d+)", self.job.text)
        return {int(slot): int(pid) for slot, pid in found}

    def read_until_all(self, pattern: str, count: int) -> None:
        self.job.read_until(rf"(?s)({pattern}.*){{{count}}}")

    def finish(self) -> str:
        """Ends the training and returns the digest of the weights, which must be the same on all workers."""
        self.over.touch()
        assert self.job.end() == 0, self.job.text
        digests = set(re.findall(r"weights (\w{64})", self.job.text))
        assert len(digests) == 1, self.job.text
        return digests.pop()

    def kill(self, slot: int) -> None:
        os.kill(self.members(3)[slot], signal.SIGKILL)
