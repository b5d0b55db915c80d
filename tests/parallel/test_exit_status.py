"""The exit code of a script is known before ``atexit`` handlers run; SystemExit otherwise behaves as before. A process
that has failed leaves the job without waiting for its programs."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import List, Tuple

import pytest
from launched import DEADLINE_S

pytestmark = pytest.mark.skipif("os.environ.get('HOROVOD_RANK', '0') != '0'", reason="one rank is enough")

SCRIPT = """
import atexit, sys
from farandole.common import departure
departure.watch()
departure.watch()
atexit.register(lambda: print(*departure.ending(), sep="|"))
try:
    sys.exit(2)
except SystemExit as caught:
    assert caught.code == 2 and caught.args == (2,)
    caught.code = 6
    assert caught.code == 6
assert SystemExit().code is None and SystemExit("text").code == "text"
exec(sys.argv[1])
"""


PROGRAMS = """
import atexit, sys
import farandole.numpy as hvd
from farandole.common import job
job.call_before_leaving(lambda: print("waits", "inside" if hvd.is_initialized() else "outside"))
hvd.init()
exec(sys.argv[1])
"""


def end_with(action: str, script: str = SCRIPT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, action]
    alone = {
        key: value for key, value in os.environ.items() if not key.lstrip("_").startswith(("HOROVOD", "FARANDOLE"))
    }
    return subprocess.run(command, check=False, env=alone, capture_output=True, text=True, timeout=DEADLINE_S)


@pytest.mark.parametrize(
    "action, reported, status",
    [
        ("pass", ("", "0"), 0),
        ("sys.exit()", ("", "0"), 0),
        ("sys.exit(0)", ("", "0"), 0),
        ("sys.exit(5)", ("", "5"), 5),
        ("sys.exit(256)", ("", "0"), 0),
        ("sys.exit(True)", ("", "1"), 1),
        ("sys.exit('no data')", ("no data", "1"), 1),
        ("sys.exit((1, 2))", ("(1, 2)", "1"), 1),
        ("sys.exit(SystemExit(8))", ("", "8"), 8),
        ("raise SystemExit", ("", "0"), 0),
        ("raise SystemExit(3)", ("", "3"), 3),
        ("raise SystemExit('no data')", ("no data", "1"), 1),
        ("exit(4)", ("", "4"), 4),
        ("import argparse; argparse.ArgumentParser().error('wrong')", ("", "2"), 2),
        ("raise KeyError('labels')", ("KeyError: 'labels'", "0"), 1),
    ],
)
def test_atexit_handlers_know_the_reason_and_exit_code(action: str, reported: Tuple[str, str], status: int) -> None:
    ended = end_with(action)
    assert ended.returncode == status, ended.stderr
    assert ended.stdout == "|".join(reported) + "\n", ended.stderr


def test_sys_exit_in_a_thread_is_not_the_exit_code_of_the_script() -> None:
    action = "import threading; one = threading.Thread(target=sys.exit, args=(7,)); one.start(); one.join()"
    ended = end_with(action)
    assert (ended.returncode, ended.stdout) == (0, "|0\n"), ended.stderr


FAILURE = "try: raise KeyError\nexcept KeyError: "


@pytest.mark.parametrize(
    "action, waits",
    [
        ("pass", ["inside"]),
        ("hvd.shutdown()", ["inside"]),
        ("atexit.register(hvd.shutdown)", ["inside"]),
        ("def train(): hvd.shutdown()\n" + FAILURE + "train()", ["inside"]),  # as one that has found no checkpoint
        ("try: sys.exit()\nfinally: hvd.shutdown()", ["inside"]),
        ("sys.last_value, sys.ps1 = KeyError(), '>>> '", ["inside"]),
        ("sys.last_value = KeyError()\nhvd.shutdown()", ["inside"]),  # as pytest leaves it after a test has failed
        ("raise KeyError", []),
        (
            "hvd.shutdown()\nsys.excepthook = lambda *_: hvd.shutdown()\nhvd.init()\nraise KeyError",
            ["inside", "outside"],
        ),
        ("def clean(): hvd.shutdown()\natexit.register(clean)\nraise KeyError", []),
        ("atexit.register(hvd.shutdown)\nraise KeyError", []),
        ("try: sys.exit(3)\nfinally: hvd.shutdown()", []),
        (FAILURE + "sys.exit(3)", []),
        (FAILURE + "hvd.shutdown()", []),
        (FAILURE + "hvd.shutdown()\nhvd.init()", ["outside", "inside"]),
    ],
)
def test_programs_are_waited_for_before_leaving_but_after_a_failure_only_before_the_next_job(
    action: str, waits: List[str]
) -> None:
    ended = end_with(action, PROGRAMS)
    assert ended.stdout.split() == [word for each in waits for word in ("waits", each)], ended.stderr
    assert "ValueError" not in ended.stderr, ended.stderr
