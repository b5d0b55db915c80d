"""The parts of `tools/test gpu` that need no GPU: counting tests, the table, and bounds in time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import List

import pytest
from gpu_tests import bounded, layout, machine, outcomes, steps, table
from gpu_tests.__main__ import main, parse
from gpu_tests.machine import Machine
from gpu_tests.outcomes import Outcome

TOOLS = Path(layout.__file__).resolve().parents[1]


def lines(*records: str) -> List[str]:
    """Lines of a record from words: the test, the outcome and the reason, with commas between them."""
    return [json.dumps(dict(zip(("test", "outcome", "reason"), record.split(",")))) for record in records]


def of(*ranks: List[str]) -> Outcome:
    return outcomes.merge([outcomes.of_rank(rank) for rank in ranks])


# ---- counts


def test_a_test_that_passes_on_all_ranks_counts_once() -> None:
    passed = lines("a,begun,", "a,passed,")
    assert of(passed, passed, passed) == Outcome(passed=1)


def test_a_test_that_fails_on_a_rank_has_failed() -> None:
    result = of(lines("a,begun,", "a,passed,"), lines("a,begun,", "a,failed,assert 1 == 2"))
    assert result == Outcome(failures=["a on rank 1: assert 1 == 2"])


def test_a_test_whose_teardown_fails_has_failed() -> None:
    assert of(lines("a,begun,", "a,passed,", "a,failed,no barrier")).failures == ["a on rank 0: no barrier"]


def test_a_test_that_a_rank_did_not_end_has_failed() -> None:
    assert of(lines("a,begun,", "a,passed,", "b,begun,")) == Outcome(1, ["b on rank 0: it did not end"])


def test_a_line_that_a_killed_rank_left_incomplete_is_ignored() -> None:
    assert of([*lines("a,begun,"), '{"test": "a", "outc']).failures == ["a on rank 0: it did not end"]


def test_a_test_that_only_some_ranks_skip_has_run() -> None:
    skipped = lines("a,begun,", "a,skipped,one rank is enough")
    assert of(lines("a,begun,", "a,passed,"), skipped) == Outcome(passed=1)
    assert of(skipped, skipped) == Outcome(skips=Counter({"one rank is enough": 1}))


def test_a_rank_without_a_record_has_failed(tmp_path: Path) -> None:
    (tmp_path / "0.jsonl").write_text("\n".join(lines("a,begun,", "a,passed,")))
    assert outcomes.read(tmp_path, 2) == Outcome(1, ["rank 1 ran no test"])


RECORDED = """
import os, pytest
def test_good(): pass
def test_bad(): assert 1 == 2, "numbers"
@pytest.mark.skip(reason="no GPU")
def test_left_out(): pass
@pytest.fixture
def broken(): raise OSError("no memory")
def test_without_its_fixture(broken): pass
def test_ends_the_process(): os._exit(3)
"""


def test_the_plugin_records_each_test_until_the_process_ends(tmp_path: Path) -> None:
    (tmp_path / "test_recorded.py").write_text(RECORDED)
    variables = {**os.environ, "GPU_TESTS_RECORD": str(tmp_path), "PYTHONPATH": str(TOOLS)}
    variables.pop("HOROVOD_RANK", None)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "gpu_tests.record", "-p", "no:cacheprovider", str(tmp_path)]
    assert subprocess.run(command, env=variables, check=False, stdout=subprocess.DEVNULL).returncode == 3
    result = outcomes.read(tmp_path, 1)
    assert result.passed == 1 and result.skips == {"no GPU": 1}
    assert [text.split("::")[1] for text in result.failures] == [
        "test_bad on rank 0: AssertionError: numbers",
        "test_without_its_fixture on rank 0: OSError: no memory",
        "test_ends_the_process on rank 0: it did not end",
    ]


def test_the_plugin_records_files_that_cannot_be_imported_or_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("import nothing_of_this_name\n")
    (tmp_path / "test_skipped.py").write_text("import pytest\npytest.skip('no driver', allow_module_level=True)\n")
    variables = {**os.environ, "GPU_TESTS_RECORD": str(tmp_path), "PYTHONPATH": str(TOOLS)}
    variables.pop("HOROVOD_RANK", None)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "gpu_tests.record", "-p", "no:cacheprovider", str(tmp_path)]
    subprocess.run(command, env=variables, check=False, stdout=subprocess.DEVNULL)
    result = outcomes.read(tmp_path, 1)
    assert len(result.failures) == 1 and "test_broken.py" in result.failures[0]
    assert result.skips == {"no driver": 1}


# ---- the table

HARDWARE = Machine("", (("GPU", "a GPU"), ("Python", "3.12")), {})
STAND_IN = Machine("/build/libcuda.so.1", (("GPU", "Stand-in GPU 0"),), {})


def row(name: str, outcome: Outcome, problem: str = "") -> table.Row:
    return table.Row(name, 2, outcome, problem, 12.34)


def test_the_table_has_all_runs_reasons_and_facts() -> None:
    skips = Counter({"needs two GPUs": 3})
    rows = [row("gpu", Outcome(79)), row("devices", Outcome(5, skips=skips)), row("tensors", Outcome(1, skips=skips))]
    results = table.Results(rows, [("frameworks on 2 ranks", "PyTorch sees no GPU")])
    assert results.is_good()
    assert table.text_of(results, HARDWARE).splitlines() == [
        "",
        "step     ranks  passed  failed  skipped  seconds",
        "gpu          2      79       0        0     12.3",
        "devices      2       5       0        3     12.3",
        "tensors      2       1       0        3     12.3",
        "",
        "skipped:",
        "  6 x needs two GPUs (devices, tensors)",
        "",
        "did not run:",
        "  frameworks on 2 ranks: PyTorch sees no GPU",
        "",
        "machine:",
        "  GPU: a GPU",
        "  Python: 3.12",
        "",
        "gpu: passed",
    ]


def test_a_table_of_the_stand_in_says_so_at_both_ends() -> None:
    text = table.text_of(table.Results([row("gpu", Outcome(1))]), STAND_IN)
    begin, end = text.strip().splitlines()[0], text.strip().splitlines()[-1]
    assert begin.startswith("STAND-IN DRIVER: no GPU took part") and "STAND-IN DRIVER" in end
    assert "STAND-IN" not in table.text_of(table.Results([row("gpu", Outcome(1))]), HARDWARE)


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        (table.Results(), "gpu: FAILED"),
        (table.Results([row("gpu", Outcome(skips=Counter({"needs two GPUs": 1})))]), "gpu: FAILED"),
        (table.Results([row("gpu", Outcome(2, ["a on rank 1: wrong"]))]), "  gpu on 2: a on rank 1: wrong"),
        (table.Results([row("gpu", Outcome(2), "ended with status 134")]), "  gpu on 2: the run ended with status 134"),
        (table.Results([row("gpu", Outcome(2))], missed=[("jobs", "no time")]), "  jobs: no time"),
    ],
    ids=["nothing ran", "all skipped", "a failure", "a crash", "out of time"],
)
def test_what_is_no_pass_fails_and_the_table_says_why(results: table.Results, expected: str) -> None:
    assert not results.is_good()
    assert expected in table.text_of(results, HARDWARE).splitlines()
    assert "gpu: FAILED" in table.text_of(results, HARDWARE)


# ---- the machine and the steps


def test_the_section_on_gpus_is_read_from_the_output_of_check() -> None:
    gpus = "Farandole GPUs:\n    H, 80 GiB\n    driver for CUDA 13.0: /x\n    NCCL: none\n"
    assert machine.section(f"Farandole v1\n\n{gpus}\nSettings:\n    A\n") == [
        ("GPU", "H, 80 GiB"),
        ("CUDA", "driver for CUDA 13.0: /x"),
        ("NCCL", "NCCL: none"),
    ]
    assert machine.section("Settings:\n    A\n") == []


def test_steps_need_what_their_tests_import() -> None:
    by_name = {step.name: step for step in steps.STEPS}
    without_torch = Machine("", (), {"torch": "there is no torch"})
    assert by_name["gpu"].obstacle(without_torch) == by_name["jobs"].obstacle(without_torch) == ""
    assert by_name["operations"].obstacle(without_torch) == "there is no torch"
    assert by_name["frameworks"].obstacle(without_torch) == "there is no torch"
    assert by_name["frameworks"].obstacle(Machine("", (), {"cuda": "it sees none"})) == "it sees none"
    assert by_name["operations"].obstacle(Machine("", (), {"cuda": "it sees none"})) == ""


def test_the_tests_of_all_steps_exist_and_jobs_are_launched_once() -> None:
    tests = layout.find().tests
    assert all((tests / name).exists() for step in steps.STEPS for name in step.tests)
    runs = [str(run) for run in steps.runs_of(steps.STEPS, [2, 3])]
    assert runs[:3] == ["gpu on 2 ranks", "gpu on 3 ranks", "jobs"] and runs.count("jobs") == 1


def test_a_bundle_and_a_tree_have_their_own_places(tmp_path: Path) -> None:
    tree = layout.find(tmp_path)
    assert not tree.is_bundle and tree.launcher == tmp_path / "build/tools/farandole/horovodrun"
    assert "run tools/setup, or name a bundle: --bundle DIR" in tree.problem()
    (tmp_path / "bundle.json").write_text("{}")
    bundle = layout.find(tmp_path)
    assert bundle.is_bundle and bundle.launcher == tmp_path / "bin/horovodrun"
    for needed in (bundle.launcher, bundle.program, bundle.packages[0] / "farandole"):
        needed.parent.mkdir(exist_ok=True)
        needed.touch()
    assert bundle.problem() == ""


def test_a_command_that_does_not_end_is_ended_at_its_bound(tmp_path: Path) -> None:
    log = tmp_path / "log"
    ended = bounded.run(["tail", "-f", "/dev/null"], os.environ, log, 1)
    assert ended.status is None and ended.problem(1) == "did not end within 1 s"
    assert bounded.run(["sh", "-c", "echo text; exit 3"], os.environ, log, 60).problem(60) == "ended with status 3"
    assert log.read_text() == "text\n"
    assert bounded.run(["true"], os.environ, log, 60).problem(60) == ""


LEAVING = """
import os, sys
from pathlib import Path
from gpu_tests import bounded
bounded.adopt_orphans()
leaving = "setsid sh -c 'tail -f /dev/null & tail -f /dev/null' & setsid tail -f /dev/null & exit 0"
assert bounded.run(["sh", "-c", leaving], os.environ, Path(sys.argv[1]), 60).status == 0
bounded.end_orphans()
assert bounded.children() == []
print("all ended")
"""


def test_processes_that_a_command_leaves_are_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LEAVING, str(tmp_path / "log")]
    ran = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(TOOLS)}, check=False, capture_output=True, text=True, timeout=240
    )
    assert ran.stdout == "all ended\n", ran.stderr


def test_options_that_name_nothing_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words, text in (
        (["--only", "gpu,none"], "no step is called none (gpu, jobs, "),
        (["--ranks", "2,x"], "2,x is no list of numbers of ranks"),
    ):
        with pytest.raises(SystemExit):
            parse(words)
        assert text in capsys.readouterr().err
    assert parse(["--only", "gpu,jobs", "--ranks", "3"]).ranks == [3]


def test_a_folder_that_is_no_bundle_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report"
    assert main(["--bundle", str(tmp_path), "--report", str(report)]) == 1
    assert "is no folder made by tools/bundle" in capsys.readouterr().out
    assert report.read_text().startswith("gpu: FAILED: no test has run: ")
