"""The training of a rank by Lightning, on real ranks without Spark, compared with the same steps in one process."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import estimator_samples as samples
import lightning.pytorch as pl
import pytest
import torch
from estimator_samples import LR, RANKS

pytestmark = pytest.mark.slow


class LightningArrays:
    """A user's data module for Lightning."""

    def __init__(self, module: Any = samples.ArrayModule, **options: Any) -> None:
        self._data = module(**options)

    def setup(self, stage: str) -> None:
        assert stage == "fit"

    def teardown(self, stage: str) -> None:
        assert stage == "fit"

    def train_dataloader(self) -> Any:
        return self._data.train_data()

    def val_dataloader(self) -> Any:
        return self._data.val_data()


class EmptyRank(LightningArrays):
    def __init__(self, **options: Any) -> None:
        super().__init__(samples.EmptyRankModule, **options)


class Regression(pl.LightningModule):
    def __init__(self, broken_after: int = 10**6, net: Optional[torch.nn.Module] = None) -> None:
        super().__init__()
        self.net = samples.network() if net is None else net
        self.broken_after = broken_after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        errors = (self(batch["x"]).reshape(-1) - batch["y"]) ** 2
        self.log("rows", float(len(errors)), on_step=False, on_epoch=True)
        self.log("loss", errors.mean(), on_step=False, on_epoch=True)
        return errors.mean() * (float("nan") if self.global_step >= self.broken_after else 1.0)

    def validation_step(self, batch: Any, index: int) -> None:
        output = self(batch["x"]).reshape(-1)
        self.log("val_error", (output - batch["y"]).abs().mean())

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=LR, momentum=0.5)


class WorseInEachEpoch(pl.Callback):
    """Logs a value that rises, so that the first checkpoint is the best."""

    def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
        module.log("rising", float(trainer.current_epoch))


def plan_of(**params: Any) -> Any:
    defaults = {
        "data_module": LightningArrays, "trainer_args": None, "num_gpus": None, "logger": None,
        "log_every_n_steps": 50, "loader_num_epochs": None, "terminate_on_nan": False, "profiler": None,
        "debug_data_loader": False, "train_async_data_loader_queue_size": None,
        "val_async_data_loader_queue_size": None, "metrics": [],
    }  # fmt: skip
    return samples.plan_of(**{**defaults, **params})


PLANS: Dict[str, Any] = {
    "empty rank": (plan_of(data_module=EmptyRank, epochs=2, rows=(64, 64)), Regression()),
    "own statistics": (
        plan_of(data_module=EmptyRank),
        Regression(net=samples.normalised_network(torch.nn.BatchNorm1d)),
    ),
    "normalised": (
        plan_of(data_module=EmptyRank, trainer_args={"sync_batchnorm": True}),
        Regression(net=samples.normalised_network(torch.nn.BatchNorm1d)),
    ),
    "steps": (
        plan_of(train_steps_per_epoch=2, epochs=9, profiler="simple", trainer_args={"max_epochs": 2}),
        Regression(),
    ),
    "best": (
        plan_of(
            epochs=3,
            callbacks=[WorseInEachEpoch(), pl.callbacks.ModelCheckpoint(monitor="rising", save_top_k=1, mode="min")],
        ),
        Regression(),
    ),
    "early stop": (
        plan_of(epochs=4, callbacks=[WorseInEachEpoch(), pl.callbacks.EarlyStopping("rising", patience=1)]),
        Regression(),
    ),
    "not a number": (plan_of(terminate_on_nan=True), Regression(broken_after=2)),
}


@pytest.fixture(scope="module")
def results() -> Dict[str, List[Any]]:
    """What each rank returned for each plan."""
    from farandole.spark.lightning.training import Training

    trainings = {name: (plan, Training(model, None)) for name, (plan, model) in PLANS.items()}
    return samples.trained_on_ranks(trainings)


def result_of(results: Dict[str, List[Any]], name: str) -> Any:
    from farandole.spark.lightning.training import Training, returned

    return returned(Training(PLANS[name][1], None), samples.content_of(results[name]))


def assert_same(model: Any, expected: torch.nn.Module) -> None:
    found = getattr(model, "net", model).state_dict()
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(found[name], value, atol=1e-6, rtol=1e-5)


STEPS = samples.steps_of(samples.ArrayModule.bounds, 4)


def test_a_rank_without_rows_takes_part(results: Any) -> None:
    model, history = result_of(results, "empty rank")
    steps = samples.steps_of(samples.EmptyRankModule.bounds, 4)
    assert_same(model, samples.trained_by_hand(steps, LR * RANKS, epochs=2))
    assert history[1]["validation"]["val_error"] == pytest.approx(
        float(samples.errors_of(model).abs().mean()), rel=1e-5
    )


def test_a_rank_without_rows_keeps_its_statistics(results: Any) -> None:
    batches = -(-samples.EmptyRankModule.bounds[1] // 4)  # of rank 0; rank 2 has one more
    assert result_of(results, "own statistics")[0].net[1].num_batches_tracked == batches


def test_a_rank_without_rows_takes_part_in_synchronised_batch_normalisation(results: Any) -> None:
    steps = samples.steps_of(samples.EmptyRankModule.bounds, 4)
    expected = samples.normalised_network(torch.nn.BatchNorm1d)
    assert_same(result_of(results, "normalised")[0], samples.trained_by_hand(steps, LR * RANKS, model=expected))


def test_steps_per_epoch_continue_in_the_next_epoch(results: Any) -> None:
    model, history = result_of(results, "steps")
    assert len(history) == 2  # as trainer_args says
    assert_same(model, samples.trained_by_hand(STEPS[:4], LR * RANKS))


def test_the_best_checkpoint_is_returned(results: Any) -> None:
    model, history = result_of(results, "best")
    assert len(history) == 3
    assert_same(model, samples.trained_by_hand(STEPS, LR * RANKS))


def test_early_stopping_ends_the_training(results: Any) -> None:
    model, history = result_of(results, "early stop")
    assert len(history) == 2
    assert_same(model, samples.trained_by_hand(STEPS, LR * RANKS, epochs=2))


def test_a_loss_that_is_not_finite_ends_the_training(results: Any) -> None:
    for rank, answer in enumerate(results["not a number"]):
        assert f"ValueError: the loss is nan on rank {rank} in epoch 0, step 2" in answer
