"""The estimator that trains by Lightning: from a DataFrame to a trained module and its predictions."""

from __future__ import annotations

import csv
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict

import estimator_samples as samples
import lightning.pytorch as pl
import numpy
import pytest
import torch
from farandole.spark.common.backend import LocalBackend
from farandole.spark.common.store import Store
from farandole.spark.lightning import TorchEstimator, versions
from farandole.spark.lightning.training import Training
from farandole.spark.task import task_info
from test_estimator_lightning_training import Regression, plan_of


class Line(pl.LightningModule):
    """A module of one weight and one bias."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(1, 1)
        torch.nn.init.zeros_(self.linear.weight)
        torch.nn.init.zeros_(self.linear.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x.float().reshape(-1, 1))

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        loss = torch.nn.functional.mse_loss(self(batch["x"]), batch["y"].float().reshape(-1, 1))
        self.log("loss", loss, on_epoch=True, on_step=False)
        return loss

    def validation_step(self, batch: Any, index: int) -> None:
        self.log("val_rows", float(len(batch["x"])))

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.05)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)]


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    spark.sparkContext.addPyFile(samples.__file__)  # executors need the classes of the modules
    spark.sparkContext.addPyFile(__file__)
    spark.sparkContext.addPyFile(__import__("test_estimator_lightning_training").__file__)
    return samples.frame_of(spark).persist()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return Store.create(str(tmp_path_factory.mktemp("store")))


def estimator_of(own_store: Any, **params: Any) -> TorchEstimator:
    defaults: Dict[str, Any] = {
        "backend": samples.InProcess(), "model": Line(), "store": own_store, "feature_cols": ["x"],
        "label_cols": ["y"], "input_shapes": [[-1, 1]], "batch_size": 8, "verbose": 0, "partitions_per_process": 1,
        "random_seed": 1,
    }  # fmt: skip
    return TorchEstimator(**{name: value for name, value in {**defaults, **params}.items() if value is not None})


@pytest.mark.filterwarnings("ignore")
class TestTraining:
    @pytest.mark.slow
    def test_two_ranks_train_and_the_module_predicts(self, frame: Any, store: Any, tmp_path: Path) -> None:
        module = Line()
        estimator = estimator_of(
            store,
            model=module,
            backend=LocalBackend(2, env={"OMP_NUM_THREADS": "1"}),
            epochs=2,
            validation=0.25,
            run_id="two",
            logger=pl.loggers.CSVLogger(str(tmp_path), name="own", flush_logs_every_n_steps=1),
        )
        trained = estimator.fit(frame)
        assert float(module.linear.weight.detach()) == 0.0 and module._trainer is None
        assert [each["epoch"] for each in trained.getHistory()] == [0, 1]
        assert set(trained.getHistory()[0]["train"]) == {"loss"}
        assert set(trained.getHistory()[0]["validation"]) == {"val_rows"}
        assert not trained.getModel().training
        with open(tmp_path / "own/version_0/metrics.csv") as file:  # rank 0 alone writes
            logged = [float(row["loss"]) for row in csv.DictReader(file) if row["loss"]]
        assert logged == pytest.approx([each["train"]["loss"] for each in trained.getHistory()])
        assert os.listdir(tmp_path / "own") == ["version_0"]
        checkpoint = torch.load(store.get_localized_path(store.get_checkpoints("two")[-1]), weights_only=False)
        assert checkpoint["optimizer_states"][0]["param_groups"][0]["initial_lr"] == pytest.approx(0.05)
        assert checkpoint["lr_schedulers"][0]["base_lrs"] == pytest.approx([0.05])
        rows = trained.transform(frame.coalesce(1)).collect()  # one process loads Lightning
        with torch.no_grad():
            expected = trained.getModel()(torch.tensor([row["x"] for row in rows])).numpy().reshape(-1)
        assert numpy.array([row["y__output"] for row in rows]) == pytest.approx(expected, abs=1e-6)

    @pytest.mark.slow
    def test_a_run_is_resumed_with_its_schedule(self, frame: Any, store: Any) -> None:
        whole = estimator_of(store, epochs=3, shuffle=False, run_id="whole").fit(frame)

        class Interrupted(pl.Callback):
            def on_train_epoch_start(self, trainer: Any, module: Any) -> None:
                if trainer.current_epoch == 2:
                    raise RuntimeError("interrupted")

        with pytest.raises(RuntimeError, match="interrupted"):
            estimator_of(store, epochs=3, shuffle=False, run_id="part", callbacks=[Interrupted()]).fit(frame)
        resumed = estimator_of(store, epochs=3, shuffle=False, run_id="part").fit(frame)
        assert [each["epoch"] for each in resumed.getHistory()] == [0, 1, 2]
        torch.testing.assert_close(resumed.getModel().linear.weight, whole.getModel().linear.weight)
        further = estimator_of(store, epochs=1, shuffle=False, run_id="part").fit(frame)
        assert [each["epoch"] for each in further.getHistory()] == [0, 1, 2, 3]

    def test_a_run_of_another_module_is_not_resumed(self, frame: Any, store: Any) -> None:
        estimator_of(store, run_id="other").fit(frame)
        with pytest.raises(ValueError, match="the run 'other' cannot be resumed with this model"):
            estimator_of(store, run_id="other", model=Regression()).fit(frame)

    @pytest.mark.slow
    def test_a_torn_checkpoint_is_not_taken_for_a_complete_one(self, frame: Any, store: Any) -> None:
        estimator_of(store, run_id="torn").fit(frame)
        path = Path(store.get_localized_path(store.get_checkpoints("torn")[-1]))
        path.write_bytes(path.read_bytes()[:-100])
        with pytest.raises(ValueError, match="runs/torn/checkpoint.ckpt of the run 'torn' cannot be used.*delete it"):
            estimator_of(store, run_id="torn").fit(frame)

    @pytest.mark.slow
    def test_a_plain_model(self, frame: Any, store: Any) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(1, 3))
        trained = estimator_of(
            store, model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            loss=torch.nn.CrossEntropyLoss(), label_cols=["kind"],
        ).fit(frame)  # fmt: skip
        assert type(trained.getModel()) is torch.nn.Sequential
        assert len(trained.transform(frame).first()["kind__output"].toArray()) == 3


def test_a_process_trains_on_the_gpu_that_spark_has_assigned(monkeypatch: pytest.MonkeyPatch) -> None:
    import farandole.torch as hvd
    from farandole.spark.lightning.remote import Trainer

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    hvd.init()
    try:
        for resources, device in (({"gpu": ["3"]}, "cuda:3"), ({}, "cuda:0")):
            monkeypatch.setattr(task_info._info, "resources", resources)
            trainer = Trainer(plan_of(use_gpu=True), Training(Line(), None))
            monkeypatch.setattr(trainer, "_lightning", SimpleNamespace(Trainer=dict))
            options = trainer._trainer("folder", None)
            assert options["strategy"].root_device == torch.device(device)
            assert (options["accelerator"], options["devices"]) == ("gpu", 1)
    finally:
        hvd.shutdown()


class TestBadInput:
    @pytest.mark.parametrize(
        "params, message",
        [
            ({"loss": torch.nn.MSELoss(), "loss_weights": [1.0]}, "loss, loss_weights: leave these out"),
            ({"optimizer": torch.optim.SGD(torch.nn.Linear(1, 1).parameters())}, "optimizer: leave these out"),
            ({"model": torch.nn.Linear(1, 1)}, "the estimator has no loss"),
            ({"model": torch.nn.Linear(1, 1), "loss": torch.nn.MSELoss()}, "no optimizer: set it, because"),
            ({"train_minibatch_fn": print}, "train_minibatch_fn: leave it out"),
            ({"input_shapes": [[-1, 1]] * 2}, "input_shapes has 2 shapes"),
        ],
    )  # fmt: skip
    def test_a_mistake_is_found_before_training(
        self, frame: Any, store: Any, params: Dict[str, Any], message: str
    ) -> None:
        backend = samples.InProcess()
        with pytest.raises(ValueError, match=message):
            estimator_of(store, **{"backend": backend, **params}).fit(frame)
        assert backend.calls == 0

    def test_passes_are_an_argument_of_the_trainer(self, frame: Any, store: Any) -> None:
        with pytest.raises(ValueError, match="trainer_args={'accumulate_grad_batches'"):
            estimator_of(store).setBackwardPassesPerStep(2).fit(frame)

    def test_lightning_is_missing_or_too_old(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, found in (("lightning", None), ("pytorch_lightning", SimpleNamespace(__version__="2.1.4"))):
            monkeypatch.setitem(sys.modules, name, found)
        with pytest.raises(RuntimeError) as raised:
            TorchEstimator()
        missing, old = str(raised.value).split("; and ")
        assert missing.startswith("horovod.spark.lightning needs Lightning, which cannot be imported (import of lightn")
        assert missing.endswith("): pip install 'lightning>=2.2.0'")
        assert old == (
            "horovod.spark.lightning needs Lightning 2.2.0 or later, and Lightning 2.1.4 is installed: "
            "pip install 'pytorch_lightning>=2.2.0'"
        )

    def test_one_of_the_packages_of_lightning_is_enough(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "lightning", None)
        monkeypatch.setitem(sys.modules, "pytorch_lightning", SimpleNamespace(__version__="2.10.0rc1"))
        versions.require_lightning()
