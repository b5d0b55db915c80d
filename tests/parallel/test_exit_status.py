"""The exit code of a script is known before ``atexit`` handlers run; SystemExit otherwise behaves as before."""

from __future__ import annotations

import subprocess
import sys
from typing import Tuple

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


def end_with(action: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SCRIPT, action]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=DEADLINE_S)


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
