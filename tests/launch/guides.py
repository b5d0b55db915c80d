"""The commands and messages of the guides to launching, and a reader that types the commands on hosts with the names of
the guides."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Dict, Iterator, List

import pytest
from namespaces import FARANDOLE, Process
from namespaces.ssh_hosts import SshHosts
from workers import exit_code

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"
PROGRAMS = "nohup|horovodrun|farandole|mpirun|srun|salloc|bsub|qsub|torchrun|source|sysctl|ss|ssh|python"
COMMAND = re.compile(rf"\(umask |([A-Z_]+=\S* )*({PROGRAMS})\s(?!\w+: )")

# `parallel/test_launch_reference.py` loads the completion.
RUN_BY_OTHER_TESTS = re.compile(r"source |farandole (completion|manual) ")
# `test_guides_of_schedulers.py` types these, where such a scheduler runs or a program stands in for it.
SLURM = re.compile(r".*\b(srun|salloc)\s")
LSF_OR_PBS = re.compile(r"(bsub|qsub)\s")
# The programs of a reader are those of this product and its environment.
PATH = f"{Path(FARANDOLE).parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"


# A worker prints its place, as the worker of the guide does, and takes part in one operation.
TRAIN = """
import numpy, farandole.numpy as hvd

hvd.init()
total = hvd.allreduce(numpy.ones(1000), op=hvd.Sum, name="ones")
assert (total == hvd.size()).all()
print(f"rank {hvd.rank()} of {hvd.size()}", flush=True)
hvd.shutdown()
"""

# A worker of an elastic job prints its place when it begins to train.
TRAIN_ELASTICALLY = """
import numpy, farandole.numpy as hvd

hvd.init()
state = hvd.elastic.NumPyState(step=0)

@hvd.elastic.run
def train(state):
    print(f"rank {hvd.rank()} of {hvd.size()}", flush=True)
    while state.step < 20:
        hvd.allreduce(numpy.ones(1000), op=hvd.Sum, name="ones")
        state.step += 1
        state.commit()

train(state)
"""


def commands_of(page: str) -> List[str]:
    """The commands in the code blocks of a page, without the output below them."""
    text = re.sub(r"\\\n\s*", "", (GUIDES / f"{page}.md").read_text())
    found = []
    for line in text.splitlines():
        command = line.strip().removeprefix("$ ")
        if line.startswith("    ") and COMMAND.match(command) and not RUN_BY_OTHER_TESTS.match(command):
            found.append(command)
    return found


def message_of(page: str, first: str, lines: int) -> str:
    """The message that a page shows, which begins with these words and has so many lines, as one line."""
    text = (GUIDES / f"{page}.md").read_text()
    found = re.findall(rf"^    {re.escape(first)}.*\n(?:    .*\n){{{lines - 1}}}", text, re.M)
    assert len(found) == 1, f"{first!r} must begin one message of {page}.md with {lines} lines, not {found}"
    return " ".join(found[0].split())


class Reader:
    """Types the commands of one page on the hosts, and knows which it has not typed yet."""

    def __init__(self, hosts: SshHosts, page: str) -> None:
        self.hosts = hosts
        self.left = list(dict.fromkeys(commands_of(page)))
        self.page = page
        self.variables: Dict[str, str] = {}
        """Of the commands, besides the usual ones."""

    def take(self, *words: str) -> str:
        """The command of the page that contains all these words. It counts as typed."""
        found = [command for command in self.left if all(word in command for word in words)]
        assert len(found) == 1, f"{words} must be in one command of {self.page}.md, not in {found} of {self.left}"
        self.left.remove(found[0])
        return found[0]

    def start(self, number: int, command: str) -> Process:
        # mpirun refuses to run as root, and to start more processes than the machine has cores. All workers share the
        # cores of this machine, so that the last one may call init() late.
        settings = {
            "HOME": str(self.hosts.home),
            "XDG_RUNTIME_DIR": "/run/user/0",
            "PATH": PATH,
            "OMP_NUM_THREADS": "1",
            "HOROVOD_START_TIMEOUT": "200",
            # torchrun leaves a folder for logs there.
            "TMPDIR": str(self.hosts.shared),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
        }
        return self.hosts.start(number, ["bash", "-c", command], {**settings, **self.variables})

    def run(self, command: str) -> str:
        """Types a command on the first host; its output."""
        process = self.start(0, command)
        assert exit_code(process) == 0, f"{command}:\n{process.text}"
        return process.text

    def run_job(self, command: str) -> None:
        assert_all_ranks(self.run(command), command)


def assert_all_ranks(text: str, command: str) -> None:
    """Every rank of the job has printed its place, once."""
    places = re.findall(r"rank (\d+) of (\d+)", text)
    sizes = {int(size) for _, size in places}
    assert len(sizes) == 1, f"{command}:\n{text}"
    assert sorted(int(rank) for rank, _ in places) == list(range(sizes.pop())), f"{command}:\n{text}"


@pytest.fixture
def hosts(permitted: None, launcher_command: None, made_hosts: List[SshHosts], tmp_path: Path) -> SshHosts:
    made = SshHosts(tmp_path, ["alpha", "beta"])
    made_hosts.append(made)
    made.make()
    (made.shared / "train.py").write_text(TRAIN)
    return made


@pytest.fixture
def reader(request: pytest.FixtureRequest, hosts: SshHosts) -> Iterator[Reader]:
    """A reader of the page that the test names. After the test, no command of the page is left."""
    made = Reader(hosts, request.param)
    made.left = [command for command in made.left if not SLURM.match(command) and not LSF_OR_PBS.match(command)]
    yield made
    assert made.left == [], f"no test runs these commands of {made.page}.md"


def page(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("reader", [name], indirect=True)
