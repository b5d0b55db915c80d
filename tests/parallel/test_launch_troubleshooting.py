"""The messages that the page on troubleshooting shows are those of the product.

Each test makes the mistake that a section describes. Of a message, numbers and names of hosts may differ.
"""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Callable, List, NamedTuple

import pytest
from launched import (
    DEADLINE_S,
    FARANDOLE,
    LAUNCHER,
    PRELUDE,
    SURVIVORS_REPORT,
    Job,
    launch,
    needs_launcher,
    wait_until,
    write_script,
)

__all__ = ["launch"]  # the fixture

pytestmark = needs_launcher
PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "troubleshooting.md"


def shown(first: str, lines: int) -> str:
    """The message on the page that begins with these words and has so many lines."""
    found = re.findall(rf"^    {re.escape(first)}.*\n(?:    .*\n){{{lines - 1}}}", PAGE.read_text(), re.M)
    assert len(found) == 1, f"{first!r} must begin one message with {lines} lines, not {found}"
    return " ".join(found[0].split())


def says(output: str, message: str) -> bool:
    """Whether the output has the message. On the page, … stands for any text."""
    pattern = re.escape(message).replace("…", ".*").replace("node1", r"\S+")
    pattern = re.sub(r"\d+(\\\.\d+)?", r"\\d+(\\.\\d+)?", pattern)
    without_prefixes = re.sub(r"^\[\d\]<std(?:out|err)>:", "", output, flags=re.M)
    return re.search(pattern, " ".join(without_prefixes.split())) is not None


def run(folder: Path, *command: str, **variables: str) -> str:
    """The output of a command."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOROVOD_", "FARANDOLE_"))}
    ran = subprocess.run(
        command,
        check=False,
        cwd=folder,
        env={**kept, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_S,
        start_new_session=True,
    )
    return ran.stdout


class Mistake(NamedTuple):
    name: str
    messages: List[str]
    script: str
    options: List[str]
    survivors_report: bool = False


# Rank 1 ends its script when rank 0 has made its third call.
ENDED_EARLY = """
import os, time

for step in range(2):
    hvd.allreduce(numpy.ones(2), name="weights")
if hvd.rank() == 0:
    third = hvd.allreduce_async(numpy.ones(2), name="weights")
    open("called", "w").close()
    hvd.synchronize(third)
while not os.path.exists("called"):
    time.sleep(0.01)
"""

# Rank 0 makes a call that rank 1 has left out, once it knows that rank 1 has ended its script.
FORGOTTEN = """
import select
from farandole.common import job

for step in range(2):
    hvd.allreduce(numpy.ones(2), name="weights")
if hvd.rank() == 0:
    while job.runtime.alive:
        select.select([], [], [], 0.02)  # polls without occupying a core
    hvd.allreduce(numpy.ones(2), name="loss")
"""

MISTAKES = [
    Mistake(
        "shapes",
        [shown("MismatchError: ", 1)],
        "hvd.allreduce(numpy.ones(2 + hvd.rank()), name='grad')\n",
        ["-np", "2"],
        survivors_report=True,
    ),
    Mistake(
        "ended early",
        [shown("farandole: this worker ends because another one did: rank 1", 3)],
        ENDED_EARLY,
        ["-np", "2"],
        survivors_report=True,
    ),
    Mistake(
        "forgotten",
        [shown("farandole: this worker ends because another one did: allreduce.loss", 3)],
        FORGOTTEN,
        ["-np", "2"],
        survivors_report=True,
    ),
    Mistake(
        "killed",
        [shown("Cause: Process 1 on node1", 1)],
        "if hvd.rank() == 1:\n    os.kill(os.getpid(), signal.SIGKILL)\nhvd.allreduce(numpy.ones(2))\n",
        ["-np", "2"],
    ),
    Mistake(
        "forked",
        [shown("HorovodInternalError: this process was forked", 2)],
        "import multiprocessing\n"
        "child = multiprocessing.get_context('fork').Process(target=hvd.allreduce, args=(numpy.ones(2),))\n"
        "child.start()\nchild.join()\n",
        ["-np", "1"],
    ),
    Mistake(
        "elastic",
        [
            shown("farandole: host localhost gets no new workers", 1),
            shown("farandole: the job has fewer workers than", 1),
        ],
        "if hvd.rank() == 1:\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "hvd.elastic.run(lambda state: hvd.allreduce(numpy.ones(2), name='loss'))(hvd.elastic.NumPyState())\n",
        ["-np", "2", "--min-np", "2", "-H", "localhost:2"],
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.name for mistake in MISTAKES])
def test_a_mistake_in_training_gives_the_message_of_its_section(mistake: Mistake, tmp_path: Path) -> None:
    script = write_script(tmp_path, PRELUDE + mistake.script)
    settings = SURVIVORS_REPORT if mistake.survivors_report else {}
    output = run(tmp_path, LAUNCHER, *mistake.options, sys.executable, script, **settings)
    assert [message for message in mistake.messages if not says(output, message)] == [], output


def test_a_stall_gives_the_message_of_its_section(launch: Callable[..., Job]) -> None:
    message = shown("Some ranks have submitted tensors that others have not", 4)
    script = "if hvd.rank() == 0:\n    hvd.allreduce(numpy.ones(2), name='weights')\nelse:\n    signal.pause()\n"
    job = launch(2, PRELUDE + script, flags=["--stall-check-warning-time-seconds", "1"])
    job.read_until(lambda text: says(text, message))


def test_mistakes_of_a_command_line_give_the_messages_of_their_sections(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    too_few = shown("horovodrun: error: 4 processes", 2)
    assert says(run(tmp_path, LAUNCHER, "-np", "4", "-H", "localhost:2", "python", "train.py"), too_few)
    no_command = shown("farandole: train.py: command not found", 1)
    assert says(run(tmp_path, LAUNCHER, "-np", "2", "train.py"), no_command)
    unprotected = shown("FARANDOLE_CPU_PATH=gloo moves tensors", 3)
    assert says(run(tmp_path, LAUNCHER, "-np", "2", "true", FARANDOLE_CPU_PATH="gloo"), unprotected)
    missing = run(tmp_path, "bash", "-c", "horovodrun -np 2 python train.py", PATH="/usr/bin:/bin")
    assert says(missing, "horovodrun: command not found")


def test_variables_that_have_no_effect_give_the_warnings_of_their_section(tmp_path: Path) -> None:
    script = write_script(tmp_path, PRELUDE)
    mistyped = run(tmp_path, LAUNCHER, "-np", "1", sys.executable, script, HOROVOD_FUSION_TRESHOLD="1")
    assert says(mistyped, shown("WARNING: unknown environment variable", 2)), mistyped
    malformed = run(tmp_path, LAUNCHER, "-np", "1", sys.executable, script, HOROVOD_AUTOTUNE="maybe")
    assert says(malformed, shown("WARNING: autotune (HOROVOD_AUTOTUNE)", 2)), malformed
    useless = run(tmp_path, LAUNCHER, "-np", "1", sys.executable, script, HOROVOD_AUTOTUNE="1")
    assert says(useless, shown("WARNING: HOROVOD_AUTOTUNE has no effect", 1)), useless


def test_mistakes_with_ports_and_secrets_give_the_messages_of_their_sections(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text("abc")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        words = [FARANDOLE, "rendezvous", "-np", "1", "--port", port, "--secret-file", str(secret)]
        short = run(tmp_path, *words)
        assert says(short, shown("the secret of … can be guessed", 1)), short
        secret.write_text(os.urandom(32).hex())
        taken = run(tmp_path, *words)
        assert says(taken, shown("farandole rendezvous: cannot listen", 1)), taken
    secret.chmod(0o644)
    open_to_others = run(tmp_path, *words)
    assert says(open_to_others, shown("… can be read or written by other users", 1)), open_to_others


def test_a_limit_of_open_files_gives_the_messages_of_its_section(tmp_path: Path) -> None:
    for limit, message, command in (
        (10, shown("this process may have … descriptors open", 2), [sys.executable, write_script(tmp_path, PRELUDE)]),
        (20, shown("Process 0 on node1 could not be started", 1), [LAUNCHER, "-np", "32", "true"]),
    ):
        output = run(tmp_path, "sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh", *command)
        assert says(output, message), (limit, output)


def test_two_interrupts_print_the_lines_of_the_section(
    launch: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FARANDOLE_TERMINATION_GRACE", "240")
    ignores = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('READY', flush=True)\nsignal.pause()\n"
    job = launch(1, f"import signal\n{ignores}")
    job.read_until(lambda text: "READY" in text)
    section = PAGE.read_text().split("## Ctrl-C does not end the job at once")[1]
    first, second = (f"farandole: Interrupt; {word} the workers" for word in ("ending", "killing"))
    assert first in section and second in section

    job.process.send_signal(signal.SIGINT)
    job.read_until(lambda text: first in text)

    def has_answered() -> bool:
        """Two signals within half a second count once, so another one may be needed."""
        if select.select([job.process.stdout], [], [], 0)[0]:
            return True
        job.process.send_signal(signal.SIGINT)
        return False

    wait_until(has_answered, "the launcher answers")
    assert job.end() == 130, job.text
    assert second in job.text
