"""The Python core without a framework: the accumulator of gradients, small helpers, the alias, the stubs."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import farandole
import horovod
import horovod.torch as hvd
import pytest
from farandole.common import basics, exceptions, job, signatures, util
from farandole.common.gradient_accumulator import GradientAccumulator, check_groups
from launched import DEADLINE_S

one_rank = pytest.mark.skipif("os.environ.get('HOROVOD_RANK', '0') != '0'", reason="one rank is enough")
ROOT = Path(__file__).resolve().parents[2]


def opened(passes: int, keys: str, groups: object = None) -> GradientAccumulator[str]:
    accumulator: GradientAccumulator[str] = GradientAccumulator(passes, groups)  # type: ignore[arg-type]
    for key in keys:
        accumulator.open(key)
    return accumulator


def test_a_gradient_is_due_after_its_backward_passes() -> None:
    accumulator = opened(2, "ab")
    assert list(accumulator.arrived("a")) == []
    assert list(accumulator.arrived("b")) == []
    assert list(accumulator.arrived("a")) == ["a"]
    assert accumulator.overdue() == [("b",)]
    accumulator.settle()
    assert accumulator.overdue() == [("a",), ("b",)]


def test_a_backward_pass_too_many_is_refused() -> None:
    accumulator = opened(1, "a")
    accumulator.arrived("a")
    with pytest.raises(AssertionError, match="backward_passes_per_step"):
        accumulator.arrived("a")
    accumulator.settle()
    assert list(accumulator.arrived("a")) == ["a"]


def test_a_group_is_due_with_its_last_member() -> None:
    accumulator = opened(2, "abc", [["a", "b"]])
    for _ in range(2):
        assert list(accumulator.arrived("a")) == []
    assert list(accumulator.arrived("b")) == []
    assert list(accumulator.arrived("b")) == ["a", "b"]
    assert accumulator.overdue() == [("c",)]


def test_an_incomplete_group_is_overdue_once() -> None:
    accumulator = opened(1, "abc", [["a", "b"]])
    accumulator.arrived("a")
    assert accumulator.overdue() == [["a", "b"], ("c",)]
    assert accumulator.overdue() == []


def test_set_passes_resets_the_counts() -> None:
    accumulator = opened(3, "a")
    accumulator.arrived("a")
    accumulator.set_passes(1)
    assert list(accumulator.arrived("a")) == ["a"]
    with pytest.raises(ValueError):
        accumulator.set_passes(0)


def test_invalid_groups_are_refused() -> None:
    check_groups(None, int)
    check_groups(3, int)
    check_groups([[1, 2], [3]], int)
    shared = object()
    for bad in (0, -1, True, 1.5, "a", (1,), [1], [["a"]]):
        with pytest.raises(ValueError):
            check_groups(bad, int)
    with pytest.raises(ValueError):
        check_groups([[shared], [shared]], object)


def test_split_list_splits_evenly() -> None:
    assert util.split_list(list(range(7)), 3) == [[0, 1, 2], [3, 4], [5, 6]]
    assert util.split_list([1, 2], 3) == [[1], [2], []]


def test_versions_are_compared_by_number() -> None:
    assert util.is_version_greater_equal_than("2.10.0", "2.9.1")
    assert util.is_version_greater_equal_than("1.13.0a0+git", "1.13.0")
    assert not util.is_version_greater_equal_than("1.9", "1.9.1")
    with pytest.raises(ValueError):
        util.is_version_greater_equal_than("1.9.0", "1.9")


def test_env_restores_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARANDOLE_TEST_A", "before")
    monkeypatch.delenv("FARANDOLE_TEST_B", raising=False)
    with util.env(FARANDOLE_TEST_A="1", FARANDOLE_TEST_B="2", FARANDOLE_TEST_C=None):
        assert (os.environ["FARANDOLE_TEST_A"], os.environ["FARANDOLE_TEST_B"]) == ("1", "2")
    assert os.environ["FARANDOLE_TEST_A"] == "before" and "FARANDOLE_TEST_B" not in os.environ


def test_helpers_of_util_give_the_documented_answers() -> None:
    assert [n for n in range(10) if util.num_rank_is_power_2(n)] == [1, 2, 4, 8]
    assert util.is_iterable([]) and not util.is_iterable(3)
    assert util.EXTENSIONS == ["tensorflow", "torch", "mxnet"]
    assert util.extension_available("torch") and not util.extension_available("mxnet")
    assert (util.mpi_built(), util.gloo_built(), util.nccl_built()) == (hvd.mpi_built(), True, hvd.nccl_built())
    with pytest.raises(exceptions.HorovodVersionMismatchError):
        util.check_installed_version("torch", "0.0.1", ImportError())


def test_build_queries_report_the_built_features() -> None:
    assert hvd.gloo_built() and hvd.gloo_enabled()
    assert not any((hvd.mpi_enabled(), hvd.ddl_built(), hvd.rocm_built()))
    assert isinstance(hvd.cuda_built(), bool)
    assert type(hvd.nccl_built()) is int  # a version code, with which scripts compare
    with pytest.raises(ValueError):
        hvd.mpi_threads_supported()
    with pytest.raises(ValueError, match="HOROVOD_TIMELINE"):
        hvd.start_timeline("unused.json")
    hvd.stop_timeline()  # only logs that there is none


def test_steps_are_marked_once_the_job_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    hvd.mark_step()
    assert farandole.mark_step == hvd.mark_step
    monkeypatch.setattr(job, "topology", None)  # as before init()
    with pytest.raises(ValueError, match="call init"):
        hvd.mark_step()


def test_reduce_ops_have_horovods_numbers() -> None:
    numbers = (hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product)
    assert numbers == (0, 1, 2, 3, 4, 5)
    assert basics.HorovodBasics.HOROVOD_PROCESS_SET_ERROR_EXISTING_SET == -6


def test_modules_of_horovod_are_the_modules_of_farandole() -> None:
    for name in (
        "torch",
        "torch.mpi_ops",
        "torch.optimizer",
        "torch.functions",
        "torch.compression",
        "torch.sync_batch_norm",
        "torch.elastic",
        "torch.elastic.state",
        "torch.elastic.sampler",
        "common.basics",
        "common.exceptions",
        "common.util",
        "common.process_sets",
        "common.elastic",
    ):
        aliased = importlib.import_module(f"horovod.{name}")
        assert aliased is importlib.import_module(f"farandole.{name}")
        assert aliased.__spec__ is not None and aliased.__spec__.name == f"farandole.{name}"
    assert horovod.__version__ == "0.28.1" and farandole.__version__ != horovod.__version__
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("horovod.no_such_module")


def run_python(code: str) -> str:
    """Runs code in a new interpreter that is no member of this job, and returns its output."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("HOROVOD_", "FARANDOLE_"))}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@one_rank
def test_importing_the_package_does_not_import_torch_numpy_or_the_native_module() -> None:
    code = (
        "import sys, horovod, farandole\n"
        "print([m for m in ('torch', 'numpy', 'cloudpickle', 'farandole._native') if m in sys.modules])"
    )
    assert run_python(code).strip() == "[]"


@one_rank
@pytest.mark.parametrize(
    "first, second",
    [("torch", "horovod.torch"), pytest.param("farandole._native", "torch", marks=pytest.mark.slow)],
)
def test_the_package_works_in_either_order_of_imports(first: str, second: str) -> None:
    code = (
        f"import {first}\nimport {second}\n"
        "import torch, horovod.torch as hvd\n"
        "hvd.init()\n"
        "print(hvd.allreduce(torch.ones(3), name='x', op=hvd.Sum).tolist(), hvd.size())\n"
    )
    assert run_python(code).strip() == "[1.0, 1.0, 1.0] 1"


@one_rank
def test_a_process_without_a_launcher_is_a_job_of_one_rank() -> None:
    code = (
        "import torch, horovod.torch as hvd\n"
        "hvd.init()\n"
        "x = torch.arange(4.0)\n"
        "assert hvd.rank() == 0 and hvd.size() == hvd.local_size() == hvd.cross_size() == 1\n"
        "assert torch.equal(hvd.allreduce(x), x) and torch.equal(hvd.allgather(x), x)\n"
        "assert torch.equal(hvd.broadcast(x, 0), x) and hvd.join() == 0\n"
        "hvd.barrier()\n"
        "assert hvd.allreduce(torch.tensor([7]), op=hvd.Average, prescale_factor=0.5).item() == 3\n"
        "handle = hvd.allreduce_async(x)\n"
        "assert hvd.poll(handle) in (True, False)\n"
        "assert torch.equal(hvd.synchronize(handle), x)\n"
        "weight = torch.nn.Parameter(torch.ones(2))\n"
        "options = {'lr': 1.0, 'momentum': 0.9, 'dampening': 0.5, 'weight_decay': 0.1}\n"
        "optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], **options))\n"
        "hvd.broadcast_optimizer_state(optimizer, 0)\n"
        "assert torch.equal(weight, torch.ones(2)) and not optimizer.state\n"
        "print('fine')\n"
    )
    assert run_python(code).strip() == "fine"


@one_rank
def test_the_native_module_exports_one_symbol_only() -> None:
    import shutil

    from farandole import _native

    if shutil.which("nm") is None:
        pytest.skip("nm is not installed")
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", str(_native.__file__)], capture_output=True, text=True, check=True
    )
    symbols = {line.split()[-1] for line in listed.stdout.splitlines()}
    assert symbols - {"_init", "_fini", "__bss_start", "_edata", "_end"} == {"PyInit__native"}


@one_rank
def test_public_functions_and_stubs_match_the_table_of_signatures() -> None:
    spec = importlib.util.spec_from_file_location("stubs_check", ROOT / "bindings" / "python" / "stubs_check.py")
    assert spec is not None and spec.loader is not None
    stubs_check = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stubs_check)
    for package in ("torch", "torch.elastic", "numpy"):
        assert signatures.differences(package) == []
    for path, text in stubs_check.made(["torch", "numpy"]).items():
        assert path.read_text() == text, f"{path.name}: run bindings/python/stubs_check.py --write"
