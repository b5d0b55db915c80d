"""The launcher names its options in messages; ``horovod.spark`` names the arguments of its functions instead."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any, List

import pytest
from farandole.runner.functions.output import LineWording
from farandole.spark.task import agent_program
from farandole.spark.wording import with_arguments
from spark_workers import elastic_worker_that_fails

ROOT = Path(__file__).resolve().parents[3]
OPTION = re.compile(r"(?<![\w-])(-np|--\w[\w-]+)")


def test_options_become_arguments() -> None:
    line = "waited 5 s (--elastic-timeout) for the 2 workers (--min-np) of 4 (-np): more than --reset-limit 3 allows"
    expected = "waited 5 s (elastic_timeout) for the 2 workers (min_num_proc) of 4 (num_proc): more than reset_limit 3 "
    assert with_arguments(line) == f"{expected}allows"
    assert with_arguments("a --min-np-like word, x-np") == "a --min-np-like word, x-np"


def test_no_message_on_the_size_of_a_job_names_an_option() -> None:
    found = []
    for path in ("elastic/worker_scheduler.cpp", "elastic/formation.cpp", "actors/launch/job_ending.cpp"):
        joined = re.sub(r'"\s*\n\s*"', "", (ROOT / path).read_text())
        found += [text for text in re.findall(r'"((?:[^"\\\n]|\\.)*)"', joined) if OPTION.search(text)]
    assert len(found) >= 6
    assert [text for text in found if OPTION.search(with_arguments(text))] == []


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_only_lines_of_the_launcher_are_changed(size: int) -> None:
    lines = [
        b"farandole: fewer than --min-np\n",
        b"[0]<stdout>:my own --min-np\n",
        b"Thu Nov 26 12:00:00 2026[1]<stderr>:--min-np \xff\n",
        b"    the last output of a worker --min-np\n",
        b"at the end --min-np",
    ]
    whole = b"".join(lines)
    wording = LineWording(with_arguments)
    chunks = [whole[start : start + size] for start in range(0, len(whole), size)]
    changed = b"".join([*(wording.changed(chunk, False) for chunk in chunks), wording.changed(b"", True)])
    lines[0], lines[-1] = b"farandole: fewer than min_num_proc\n", b"at the end min_num_proc"
    assert changed == b"".join(lines)


def test_a_part_of_a_line_of_a_worker_does_not_wait_for_the_rest() -> None:
    wording = LineWording(with_arguments)
    passed: List[bytes] = [wording.changed(part, False) for part in (b"[0]<std", b"out>:50 %", b" 60 %", b"\nlaunch")]
    assert passed == [b"", b"[0]<stdout>:50 %", b" 60 %", b"\n"]


@pytest.mark.slow
def test_an_elastic_job_that_fails_names_arguments(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import horovod.spark

    monkeypatch.setattr(agent_program, "LONGEST_PAUSE_S", 0)
    stderr = io.StringIO()
    with pytest.raises(RuntimeError) as caught:
        horovod.spark.run_elastic(elastic_worker_that_fails(), num_proc=2, min_num_proc=1, reset_limit=1, stderr=stderr)
    printed = stderr.getvalue()
    assert "more often than reset_limit 1 allows" in printed
    of_launcher = [line for line in printed.splitlines() if not line.startswith("[")]
    assert [line for line in [*of_launcher, *str(caught.value).splitlines()] if OPTION.search(line)] == []
