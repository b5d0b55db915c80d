"""Forked children of a member that receive SIGTERM while the member is in its elastic loop."""

from __future__ import annotations

import subprocess
import sys
from typing import List

import pytest
from launched import DEADLINE_S

pytestmark = pytest.mark.skipif("os.environ.get('HOROVOD_RANK', '0') != '0'", reason="one rank is enough")

MEMBER = """
import os, signal, subprocess, sys, threading
from farandole import _native
from farandole.common import forked_children

KILLED = -signal.SIGTERM

class Child:
    # A forked process that answers as long as it lives.
    def __init__(self):
        to_child, self.questions = os.pipe()
        self.answers, from_child = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.questions)
            os.close(self.answers)
            while os.read(to_child, 1):
                os.write(from_child, b"!")
            os._exit(7)
        os.close(to_child)
        os.close(from_child)

    def is_alive(self):
        os.write(self.questions, b"?")
        return os.read(self.answers, 1) == b"!"

    def code(self):
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

def tell_to_end(pid):
    # As a scheduler does: the sender is neither the member nor its launcher.
    subprocess.run(["kill", "-TERM", str(pid)], check=True)

forked_children.guard(0)
early, outside = Child(), Child()
tell_to_end(outside.pid)
assert outside.code() == KILLED
assert _native.catch_termination(0)
"""

STEPS = {
    "a child ignores a scheduler's SIGTERM and ends by its parent's": """
child = Child()
tell_to_end(child.pid)
assert child.is_alive()
os.kill(child.pid, signal.SIGTERM)
assert child.code() == KILLED
""",
    "a child forked before the loop ignores a scheduler's SIGTERM and ends by its parent's": """
tell_to_end(early.pid)
assert early.is_alive()
os.kill(early.pid, signal.SIGTERM)
assert early.code() == KILLED
""",
    "a child lives on when the thread that forked it ends": """
made = []
forking = threading.Thread(target=lambda: made.append(Child()))
forking.start()
forking.join()
tell_to_end(made[0].pid)
assert made[0].is_alive()
os.close(made[0].questions)
assert made[0].code() == 7
""",
    "an executed program ends by a scheduler's SIGTERM": """
for options in ({}, {"preexec_fn": lambda: None}):
    program = subprocess.Popen(["sleep", "600"], **options)
    tell_to_end(program.pid)
    assert program.wait() == KILLED
""",
    "a child's own handler receives its parent's SIGTERM": """
read, write = os.pipe()
pid = os.fork()
if pid == 0:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(9))
    assert _native.guard_forked_child()
    os.write(write, b"!")
    while True:
        signal.pause()
assert os.read(read, 1) == b"!"
os.kill(pid, signal.SIGTERM)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
""",
    "after the loop a scheduler's SIGTERM ends a child": """
child = Child()
_native.release_termination()
tell_to_end(child.pid)
assert child.code() == KILLED
later = Child()
tell_to_end(later.pid)
assert later.code() == KILLED
""",
}


def run(script: str) -> List[str]:
    """Runs a script until it and all its children have closed the output; its exit code and lines."""
    done = subprocess.run(
        [sys.executable, "-c", MEMBER + script],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_S,
    )
    return [str(done.returncode), *done.stdout.splitlines()]


def test_the_sender_of_sigterm_decides_whether_a_child_ends() -> None:
    script = "".join(f"print({claim!r}, flush=True)\n{step}" for claim, step in STEPS.items())
    assert run(script) == ["0", *STEPS]


def test_a_child_that_ignored_sigterm_ends_with_its_member() -> None:
    script = """
child = Child()
tell_to_end(child.pid)
assert child.is_alive()
# Another process holds the pipe open, so that the end of the member does not close the child's pipe.
if os.fork() == 0:
    os.close(1), os.close(2)
    os.read(child.answers, 1)
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run(script) == ["-9"]
