"""What training processes are told: devices, seeds and the arguments of data modules; and the output of a run."""

from __future__ import annotations

import importlib.util
import multiprocessing
import random
from pathlib import Path
from typing import Any, List

import estimator_samples as samples
import numpy
import pytest
from farandole.spark.common.backend import Backend, LocalBackend, WithVariables
from farandole.spark.common.logs import RunLog, record
from farandole.spark.common.plan import check_devices
from farandole.spark.common.resuming import last_epoch_of
from farandole.spark.common.serialization import pickled, unpickled
from farandole.spark.task import task_info


def test_a_plan_is_pickled_with_its_parameters() -> None:
    plan = unpickled(pickled(samples.plan_of(batch_size=9), "plan"))
    assert (plan.batch_size, plan.run_id, plan.columns) == (9, "run", ["x", "y"])
    with pytest.raises(AttributeError, match="the plan of a fit has no parameter 'batch_count'"):
        _ = plan.batch_count


def test_data_modules_get_the_shard_of_their_rank_and_all_columns() -> None:
    plan = samples.plan_of(sample_weight_col="w", epochs=3, rows=(10, 5), random_seed=4, train_steps_per_epoch=7)
    arguments = plan.data_arguments(2, 5)
    assert (arguments["cur_shard"], arguments["shard_count"]) == (2, 5)
    assert arguments["schema_fields"] == ["x", "y", "w"]
    assert (arguments["num_train_epochs"], arguments["has_val"], arguments["random_seed"]) == (3, True, 4)
    assert (arguments["steps_per_epoch_train"], arguments["steps_per_epoch_val"]) == (7, None)


def test_ranks_draw_different_numbers_from_one_seed() -> None:
    seeds: List[int] = []
    draws = []
    for rank in (0, 1, 0):
        samples.plan_of(random_seed=5).start_process(rank, seeds.append)
        draws.append((random.random(), numpy.random.rand()))
    assert seeds == [5, 6, 5]
    assert draws[0] == draws[2] != draws[1]


def test_processes_are_started_in_the_given_way(monkeypatch: pytest.MonkeyPatch) -> None:
    methods: List[Any] = []
    monkeypatch.setattr(multiprocessing, "set_start_method", lambda method, force: methods.append((method, force)))
    samples.plan_of(mp_start_method="spawn").start_process(0, print)
    samples.plan_of().start_process(0, print)
    assert methods == [("spawn", True)]


@pytest.mark.parametrize(
    "done, planned, epochs, last",
    [(0, 0, 3, 3), (1, 3, 3, 3), (3, 3, 1, 4), (2, 5, 1, 3), (2, 5, 4, 4)],
    ids=[
        "new",
        "interrupted",
        "complete",
        "interrupted, with fewer epochs than done",
        "interrupted, with fewer epochs",
    ],
)
def test_the_last_epoch_of_a_run_that_is_continued(done: int, planned: int, epochs: int, last: int) -> None:
    assert last_epoch_of(done, planned, epochs) == last


class TestDevices:
    def test_a_process_takes_the_gpu_that_spark_has_assigned(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(task_info._info, "resources", {"gpu": ["3"]})
        assert samples.plan_of(use_gpu=True).gpu_of(local_rank=1, gpus=4) == 3

    def test_otherwise_that_of_its_local_rank(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(task_info._info, "resources", {})
        plan = samples.plan_of(use_gpu=True)
        assert [plan.gpu_of(local_rank=rank, gpus=2) for rank in range(3)] == [0, 1, 0]

    def test_without_gpus_or_against_them_it_takes_none(self) -> None:
        assert samples.plan_of(use_gpu=True).gpu_of(0, 0) is None
        assert samples.plan_of(use_gpu=False).gpu_of(0, 4) is None

    def test_all_ranks_need_the_same_type_of_device(self) -> None:
        check_devices(["cpu", "cpu"])
        with pytest.raises(ValueError, match=r"cpu: ranks 0, 2; cuda: ranks 1.*set use_gpu=False"):
            check_devices(["cpu", "cuda", "cpu"])


class TestLogs:
    EPOCH = record(0, {"loss": 0.25}, {"loss": 0.5})

    def test_an_epoch_is_printed(self, capsys: pytest.CaptureFixture[str]) -> None:
        log = RunLog(None, 1)
        log.epoch(self.EPOCH, 3)
        log.close()
        printed = capsys.readouterr().out
        assert printed.startswith("epoch 1 of 3 (") and printed.endswith("train loss 0.25, validation loss 0.5\n")

    def test_nothing_is_printed_unless_asked_for(self, capsys: pytest.CaptureFixture[str]) -> None:
        RunLog(None, 0).epoch(self.EPOCH, 3)
        assert capsys.readouterr().out == ""

    def test_nothing_is_logged_without_tensorboardx(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        real = importlib.util.find_spec
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "tensorboardX" else real(name))
        log = RunLog(str(tmp_path / "logs"), 0)
        log.epoch(self.EPOCH, 3)
        log.close()
        assert list(tmp_path.iterdir()) == []


class TestBackends:
    def test_a_backend_without_methods_names_itself(self) -> None:
        class Empty(Backend):
            pass

        with pytest.raises(NotImplementedError, match="Empty has no method run"):
            Empty().run(print)
        with pytest.raises(NotImplementedError, match="Empty has no method num_processes"):
            Empty().num_processes()

    def test_variables_are_set_before_the_function_is_called(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import os

        monkeypatch.setattr(os, "environ", dict(os.environ))
        assert WithVariables(lambda name: os.environ[name], {"FARANDOLE_TEST": "set"})("FARANDOLE_TEST") == "set"

    @pytest.mark.slow
    def test_a_local_backend_runs_a_job_with_its_variables(self) -> None:
        def variables(first: str, second: str = "") -> Any:
            import os

            return os.environ["HOROVOD_RANK"], os.environ[first], os.environ[second]

        backend = LocalBackend(2, env={"A": "own"})
        assert backend.run(variables, ("A",), {"second": "B"}, env={"B": "given"}) == [
            ("0", "own", "given"),
            ("1", "own", "given"),
        ]
