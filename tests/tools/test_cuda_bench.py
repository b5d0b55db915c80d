"""The parts of `tools/bench cuda` that need no GPU: turns, times, shares, and the table."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Dict, List

import pytest
from benchmarks.cuda import host_runtime, table
from benchmarks.cuda.__main__ import Run, main, obstacle_of, parse
from benchmarks.cuda.rows import ALL_SECONDS, IN_PLACE, JOBS, NCCL, OURS, ROWS, Missing, Row
from benchmarks.cuda.table import Results
from benchmarks.cuda.turns import FIRST_LINKS, MOST_LINKS, GpuTime, Turns, remark
from gpu_tests import bounded, layout
from gpu_tests.__main__ import Prepared
from gpu_tests.machine import Machine

HARDWARE = Machine("", (("GPU", "H"),), {})
STAND_IN = Machine("/fake/libcuda.so.1", (("GPU", "Stand-in GPU 0"),), {})


# ---- turns and times


def test_contestants_take_turns_in_opposite_orders() -> None:
    order: List[str] = []

    def block(name: str) -> Callable[[], float]:
        def run() -> float:
            order.append(name)
            return float(len(order))

        return run

    samples = Turns(3, 60, lambda has_time: has_time).take({name: block(name) for name in "AB"})
    assert "".join(order) == "AB" + "AB" + "BA" + "AB"
    assert samples == {"A": [3.0, 6.0, 7.0], "B": [4.0, 5.0, 8.0]}


def test_no_round_is_begun_when_a_rank_has_no_time_left() -> None:
    asked: List[bool] = []

    def agree(has_time: bool) -> bool:
        asked.append(has_time)
        return len(asked) < 2

    samples = Turns(10, 60, agree).take({"A": lambda: 1.0})
    assert len(samples["A"]) == len(asked) == 2


class SlowToOccupy(host_runtime.Event):
    """The event of a GPU that has not reached the steps once it was given enough work."""

    device: Device

    def query(self) -> bool:
        return self.device.occupied < self.device.enough


class Device:
    def __init__(self, enough: int) -> None:
        self.enough = enough
        self.occupied = 0

    def event(self) -> host_runtime.Event:
        made = SlowToOccupy(enable_timing=True)
        made.device = self
        return made

    def occupy(self, links: int) -> None:
        self.occupied = links

    def synchronize(self) -> None:
        host_runtime.synchronize()

    def seconds_between(self, begin: host_runtime.Event, end: host_runtime.Event) -> float:
        return begin.elapsed_time(end) / 1e3


def test_the_gpu_is_occupied_longer_until_the_host_is_faster() -> None:
    device = Device(enough=3 * FIRST_LINKS)
    block = GpuTime(device, lambda: None, 2)
    assert block() >= 0
    assert block.links == device.occupied == 4 * FIRST_LINKS
    assert remark({"A": block}) == ""


def test_a_host_that_is_always_slower_is_remarked() -> None:
    blocks = {"A": GpuTime(Device(MOST_LINKS + 1), lambda: None, 2), "B": GpuTime(Device(0), lambda: None, 2)}
    for block in blocks.values():
        block()
    assert blocks["A"].links == MOST_LINKS
    assert remark(blocks) == "times include the host's, for which the GPU waited: A in 1 of 1 blocks"


def test_a_gpu_that_shall_not_be_occupied_is_measured_once() -> None:
    steps: List[int] = []
    GpuTime(Device(MOST_LINKS + 1), lambda: steps.append(1), 3, is_occupied=False)()
    assert len(steps) == 3


# ---- results


def results_of(measure: str, samples: Dict[str, List[float]]) -> Results:
    results = Results()
    results.add(measure, [{"samples": samples}])
    return results


def test_the_slowest_rank_counts_in_each_round() -> None:
    results = Results()
    results.add("64 MiB", [{"samples": {"A": [1.0, 4.0]}}, {"samples": {"A": [2.0, 3.0]}}])
    assert results.samples["64 MiB"] == {"A": [2.0, 4.0]}


def test_a_share_is_that_of_the_best_rival_in_the_same_round() -> None:
    row = Row("text", "small", 0.3, ("slow", "fast"))
    samples = {OURS: [1.0, 3.0, 3.0], "slow": [90.0, 90.0, 90.0], "fast": [10.0, 10.0, 30.0]}
    assert table.best_rival(row, samples) == "fast"
    assert table.shares(row, samples) == [0.1, 0.3, 0.1]


def test_a_row_that_misses_its_target_is_marked_and_another_is_not() -> None:
    results = results_of("host", {OURS: [0.7e-5] * 3, IN_PLACE: [0.4e-5] * 3, NCCL: [1e-5] * 3})
    text = table.text_of(results, HARDWARE, 3)
    assert "| 7 ± 0 µs | 10 ± 0 µs | 0.7 ± 0 | ≤ 0.8 |" in text
    assert "| 4 ± 0 µs | 10 ± 0 µs | **0.4 ± 0** (short) | ≤ 0.3 |" in text
    assert "STAND-IN" not in text


def test_figures_without_a_rival_are_compared_with_their_limit() -> None:
    results = Results()
    results.add(
        "memory", [{"figures": {"before": [0.0], "after": [66.0], "growth": [-2.0]}, "remark": "NCCL is loaded"}]
    )
    text = table.text_of(results, HARDWARE, 3)
    assert "|  | 0 MiB |  |  | ≤ 0 MiB |" in text
    assert "|  | **66 MiB** (short) |  |  | ≤ 64 MiB |" in text
    assert "- memory: NCCL is loaded\n" in text


def test_figures_of_the_stand_in_meet_and_miss_no_target() -> None:
    results = results_of("host", {OURS: [1.0] * 3, IN_PLACE: [2.0] * 3, NCCL: [1e-5] * 3})
    text = table.text_of(results, STAND_IN, 3)
    assert text.startswith("STAND-IN DRIVER: ") and text.splitlines()[-1].startswith("STAND-IN DRIVER: ")
    assert "≤" not in text and "short" not in text and "wanted" not in text


def test_rows_that_cannot_be_measured_are_listed_with_the_reason() -> None:
    results = results_of("small", {OURS: [1.0], "torch.cat + mul_": [1.0], "torch._foreach_mul_": [1.0]})
    results.add("host", [{"missing": "PyTorch has no nccl"}])
    assert results.is_good()
    results.add("64 MiB", [{"samples": {OURS: [1.0]}}, {"problem": "RuntimeError: x"}])
    assert not results.is_good()
    text = table.text_of(results, HARDWARE, 3)
    assert "Not measured:\n\n- host: PyTorch has no nccl\n" in text
    assert "What went wrong:\n\n- 64 MiB: RuntimeError: x\n" in text


def test_a_run_without_a_result_is_no_success() -> None:
    results = Results(left_out={"host": "there is no torch"})
    assert not results.is_good()
    assert "Nothing was measured." in table.text_of(results, HARDWARE, 3)


# ---- rows and options


def test_each_row_is_measured_by_one_job_and_all_end_in_time() -> None:
    measures = [name for job in JOBS for name in job.measures]
    assert len(set(measures)) == len(measures)
    assert {row.measure for row in ROWS} == set(measures)
    assert sum(job.seconds for job in JOBS) <= ALL_SECONDS < 480


def prepared_with(gpus: int, python: Path) -> Prepared:
    return Prepared(layout.find(), str(python), {"PYTHONPATH": ""}, Machine("", (("GPU", "H"),) * gpus, {}))


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("echo 22809", ""),
        ("echo 0", "this build of Farandole does not use NCCL"),
        ("echo 'ImportError: x' >&2; exit 1", "hvd.nccl_built() failed: ImportError: x"),
        ("exit 3", "hvd.nccl_built() failed: it ended with status 3"),
    ],
)
def test_nccl_needs_a_build_with_it(program: str, reason: str, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{program}\n")
    python.chmod(0o755)
    (job,) = (job for job in JOBS if job.needs == "nccl")
    assert obstacle_of(job, prepared_with(1, python)) == reason


@pytest.mark.parametrize(("gpus", "hosts"), [(1, ["on_own_hosts"]), (3, [])])
def test_ranks_that_share_a_gpu_by_nccl_are_on_hosts_of_their_own(
    gpus: int, hosts: List[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: List[List[str]] = []

    def keep(command: List[str], *_: object) -> bounded.Ended:
        commands.append(command)
        return bounded.Ended(0, 0.0)

    monkeypatch.setattr(bounded, "run", keep)
    monkeypatch.setattr(bounded, "end_orphans", lambda: None)
    (job,) = (job for job in JOBS if job.needs == "nccl")
    run = Run(prepared_with(gpus, tmp_path / "python"), job, [], tmp_path / "work", 1.0)
    (run.folder / "log").touch()
    run.launch("module", seconds=1.0)
    (command,) = commands
    assert [Path(word).name for word in command if "on_own_hosts" in word] == hosts


def test_rows_on_pytorch_s_tensors_need_a_pytorch_that_sees_a_gpu() -> None:
    by_name = {job.name: job for job in JOBS}
    blind = Prepared(layout.find(), "", {}, Machine("", (), {"cuda": "it sees none"}))
    assert obstacle_of(by_name["one rank"], blind) == "it sees none"
    assert obstacle_of(by_name["driver"], blind) == ""


class WithoutNccl:
    """A worker whose PyTorch was built without NCCL."""

    is_tiny = True
    hvd = None

    class torch:
        __version__ = "2.15.0"

        class distributed:
            @staticmethod
            def is_backend_available(name: str) -> bool:
                return name != "nccl"

    def torch_device(self) -> WithoutNccl:
        return self

    def tensor(self, elements: int) -> int:
        return elements

    def own_backend(self) -> str:
        return "nccl"


def test_a_pytorch_without_nccl_is_named_as_the_reason() -> None:
    from benchmarks.cuda.on_torch import host

    with pytest.raises(Missing, match=r"PyTorch 2\.15\.0 has no nccl"):
        host(WithoutNccl())


def test_options_that_name_nothing_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words, text in (
        (["--only", "host,none"], "no row is called none (gradients, compressed, "),
        (["--write", "--smoke"], "--write keeps all rows"),
        (["--write", "--only", "host"], "--write keeps all rows"),
    ):
        with pytest.raises(SystemExit):
            parse(words)
        assert text in capsys.readouterr().err
    assert parse(["--only", "host,64 MiB"]).only == ["host", "64 MiB"]


def test_a_folder_that_is_no_bundle_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--bundle", str(tmp_path)]) == 1
    assert "is no folder made by tools/bundle" in capsys.readouterr().out
