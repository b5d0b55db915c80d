"""The errors of the other ranks and the launcher's report name the rank that ended, its host and the cause."""

from __future__ import annotations

import re
import signal
import socket
from pathlib import Path
from typing import Callable, Dict, NamedTuple

import pytest
from launched import PRELUDE, Job, launch, needs_launcher

__all__ = ["launch"]  # the fixture

pytestmark = needs_launcher

# Rank 1 ends after one batch of three, once the others have submitted the second. Rank 0 prints its error and exits
# with its own code; rank 2 does not catch the error.
SCRIPT = (
    PRELUDE
    + """
import pathlib, select
marks = [pathlib.Path(__file__).with_name(f"submitted.{os.getppid()}.{rank}") for rank in range(hvd.size())]
for batch in range(3):
    if hvd.rank() == 1 and batch == 1:
        while not all(mark.exists() for mark in marks[:1] + marks[2:]):
            select.select([], [], [], 0.02)  # polls without occupying a core
        print("the last words of rank 1", file=sys.stderr, flush=True)
        sys.stderr.write("its very last words\\n")
        sys.stderr.flush()
        exec(sys.argv[1])
    try:
        handle = hvd.allreduce_async(numpy.ones(2), name="weights")
        if batch == 1:
            marks[hvd.rank()].touch()
        hvd.synchronize(handle)
    except hvd.HorovodInternalError as problem:
        if hvd.rank() == 2:
            raise
        print("rank 0 was told:", problem, flush=True)
        sys.exit(9)
"""
)

JOIN = "If ranks have different numbers of batches, call join()"


class Ending(NamedTuple):
    action: str
    told: str  # in the errors of the others, after the rank's name
    code: int  # of rank 1; of the launcher, too, if it is not 0
    cause: str  # in its report


ENDINGS: Dict[str, Ending] = {
    "raises": Ending(
        "raise KeyError('on purpose')",
        "ended with an uncaught exception (KeyError: 'on purpose') after 1 operation (this rank: 2 operations); "
        "pending here: allreduce.weights. Its output has the traceback.",
        1,
        "ended with an uncaught exception (KeyError: 'on purpose')",
    ),
    # Rank 1 exits with 0, so the launcher exits with the code of rank 0 or 2; these two end in either order.
    "one-batch-fewer": Ending(
        "break",
        f"ended its script after 1 operation (this rank: 2 operations); pending here: allreduce.weights. {JOIN}",
        0,
        "ended its script while others still had operations to complete",
    ),
    "exits": Ending(
        "sys.exit(5)",
        "exited with code 5 after 1 operation (this rank: 2 operations); pending here: allreduce.weights. "
        "Its output may say why.",
        5,
        "exited with code 5",
    ),
    "exits-with-a-reason": Ending(
        "raise SystemExit('no data')",
        "exited with code 1 (no data) after 1 operation (this rank: 2 operations); pending here: allreduce.weights",
        1,
        "exited with code 1 (no data)",
    ),
    "exits-with-0": Ending(
        "sys.exit()",
        f"ended its script after 1 operation (this rank: 2 operations); pending here: allreduce.weights. {JOIN}",
        0,
        "ended its script while others still had operations to complete",
    ),
    "exits-without-cleanup": Ending(
        "os._exit(3)", "exited with code 3; this operation cannot complete without it", 3, "exited with code 3"
    ),
    "is-killed": Ending(
        "os.kill(os.getpid(), signal.SIGKILL)",
        "was killed by signal 9",
        128 + signal.SIGKILL,
        "was killed by signal 9",
    ),
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=list(ENDINGS))
def test_a_rank_that_ends_early_is_named_by_the_others_and_in_one_report(
    ending: Ending, launch: Callable[..., Job], tmp_path: Path
) -> None:
    script = SCRIPT.replace("exec(sys.argv[1])", "break") if ending.action == "break" else SCRIPT
    folder = tmp_path / "output"
    job = launch(3, script, ending.action, flags=["--output-filename", str(folder)], survivors_report=True)
    code = job.end()
    assert code == ending.code or (ending.code == 0 and code in (1, 9)), job.text

    told = re.search(r"^\[0\]<stdout>:rank 0 was told: (.*)$", job.text, re.M)
    named = f"rank 1 on {socket.gethostname()} {ending.told}"
    assert told and named in told.group(1), job.text

    # Rank 2 prints one line and no traceback.
    consequence = re.findall(r"^\[2\]<stderr>:(.*)$", job.text, re.M)
    assert len(consequence) == 1, job.text
    assert consequence[0].startswith("farandole: this worker ends because another one did: ")
    assert named in consequence[0]

    blocks = job.text.split("Horovod detected that one or more processes exited with non-zero status.")
    assert len(blocks) == 2, job.text
    report = blocks[1].splitlines()[1:]
    assert report[:2] == ["Process name: 1", f"Exit code: {ending.code}"], job.text
    assert report[2].startswith(f"Cause: Process 1 on {socket.gethostname()} {ending.cause}"), job.text
    assert "    its very last words" in report, job.text
    assert report[-2] == f"Full output: {folder}/rank.1/stdout and {folder}/rank.1/stderr", job.text
    assert report[-1].startswith("farandole: what each rank was doing: farandole explain /"), job.text
    assert not re.search(r": W \w+\.cpp", job.text), job.text


# Rank 1 ends while no rank waits for it. The next operations of the other ranks fail once they know of its end; then
# rank 0 exits by itself, and rank 2 does not catch the error.
EARLY_SCRIPT = (
    PRELUDE
    + """
import select
from farandole.common import job
hvd.allreduce(numpy.ones(2), name="weights")
if hvd.rank() == 1:
    print("its very last words", file=sys.stderr, flush=True)
    exec(sys.argv[1])
else:
    while job.runtime.alive:
        select.select([], [], [], 0.02)  # polls without occupying a core
    try:
        hvd.allreduce(numpy.ones(2), name="more")
    except hvd.HorovodInternalError:
        if hvd.rank() == 2:
            raise
        sys.exit(9)
"""
)

EARLY_ENDINGS: Dict[str, Ending] = {
    "raises": ENDINGS["raises"]._replace(told="ended with an uncaught exception (KeyError: 'on purpose')"),
    "ends": Ending("pass", "ended its script", 0, "ended its script while others still had operations to complete"),
    "exits": Ending("sys.exit(5)", "exited with code 5", 5, "exited with code 5"),
    "exits-with-a-reason": Ending(
        "raise SystemExit('no data')", "exited with code 1 (no data)", 1, "exited with code 1 (no data)"
    ),
    "shuts-down": Ending(
        "hvd.shutdown()", "called shutdown()", 0, "called shutdown() while others still had operations to complete"
    ),
}


@pytest.mark.parametrize("ending", EARLY_ENDINGS.values(), ids=list(EARLY_ENDINGS))
def test_a_rank_that_ends_between_operations_is_named_when_the_next_ones_fail(
    ending: Ending, launch: Callable[..., Job]
) -> None:
    job = launch(3, EARLY_SCRIPT, ending.action, survivors_report=True)
    code = job.end()
    assert code == ending.code or (ending.code == 0 and code in (1, 9)), job.text
    named = f"rank 1 on {socket.gethostname()} {ending.told}"
    for rank in (0, 2):
        consequence = re.findall(rf"^\[{rank}\]<stderr>:(.*)$", job.text, re.M)
        assert len(consequence) == 1 and f"allreduce.more: {named}" in consequence[0], job.text
    report = job.text.split("exited with non-zero status.")[1].splitlines()[1:]
    assert report[:2] == ["Process name: 1", f"Exit code: {ending.code}"], job.text
    assert report[2].startswith(f"Cause: Process 1 on {socket.gethostname()} {ending.cause}"), job.text
    assert "    its very last words" in report, job.text


def test_an_error_that_all_ranks_have_in_common_is_reported_once(launch: Callable[..., Job]) -> None:
    # The report compares ten lines of each rank, to which no warning of init() then belongs.
    script = PRELUDE + "sys.stderr.write('.\\n' * 10)\nhvd.allreduce(numpy.ones(2 + hvd.rank()), name='grad')\n"
    job = launch(3, script, survivors_report=True)
    assert job.end() == 1, job.text
    report = job.text.split("exited with non-zero status. ")[1]
    error = "MismatchError: allreduce.grad: shapes differ: rank 0 has [2], rank 1 has [3]; every rank must submit"
    first = re.match(
        r"The first of several with the same error was:\nProcess name: (\d)\nExit code: 1\n"
        rf"Cause: Process \1 on {re.escape(socket.gethostname())} ended with an uncaught exception "
        rf"\({re.escape(error)}",
        report,
    )
    assert first, job.text
    others = " and ".join(rank for rank in "012" if rank != first.group(1))
    assert f"The same error ended processes {others}, so none of these processes is the cause alone.\n" in report
    assert f"Last lines of its stderr, the same as of processes {others}:\n" in report
    assert report.count(error) == 2, job.text


def test_a_rank_that_fails_is_the_cause_rather_than_one_that_exited_with_0(launch: Callable[..., Job]) -> None:
    script = EARLY_SCRIPT.replace('hvd.allreduce(numpy.ones(2), name="more")', "sys.exit(7)")
    job = launch(2, script, "pass", survivors_report=True)
    assert job.end() == 7, job.text
    assert f"Process name: 0\nExit code: 7\nCause: Process 0 on {socket.gethostname()} exited with code 7\n" in job.text


def test_a_rank_that_exits_before_init_is_the_cause_and_the_others_print_one_line(launch: Callable[..., Job]) -> None:
    script = "import os, sys\nif os.environ['HOROVOD_RANK'] == '1':\n    sys.exit('no data')\n" + PRELUDE
    job = launch(3, script, survivors_report=True)
    assert job.end() == 1, job.text
    for rank in (0, 2):
        lines = re.findall(rf"^\[{rank}\]<stderr>:(.*)$", job.text, re.M)
        assert len(lines) == 1 and "slot 1 exited with code 1" in lines[0], job.text
    report = job.text.split("exited with non-zero status.")[1]
    assert f"Process name: 1\nExit code: 1\nCause: Process 1 on {socket.gethostname()} exited with code 1\n" in report
    assert "Last lines of its stderr:\n    no data\n" in report


def test_a_scripts_excepthook_is_called_and_log_level_info_prints_tracebacks(launch: Callable[..., Job]) -> None:
    hook = "import sys\nsys.excepthook = lambda kind, problem, trace: print('own hook:', kind.__name__, flush=True)\n"
    script = SCRIPT.replace("if hvd.rank() == 2", "if hvd.rank() == 0")
    job = launch(2, hook + script, "raise KeyError('on purpose')", survivors_report=True)
    assert job.end() == 1, job.text
    assert "own hook: KeyError" in job.text and "own hook: WorkerLostError" in job.text
    cause = f"Process 1 on {socket.gethostname()} ended with an uncaught exception (KeyError: 'on purpose')"
    assert f"Cause: {cause}" in job.text
    job = launch(2, script, "raise KeyError('on purpose')", flags=["--log-level", "info"], survivors_report=True)
    assert job.end() == 1, job.text
    assert job.text.count("<stderr>:Traceback (most recent call last)") >= 2, job.text
