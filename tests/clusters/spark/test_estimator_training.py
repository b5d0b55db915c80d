"""The training for PyTorch and by Lightning on real ranks without Spark, in one job, compared with the same steps in
one process. Further plans are tested in ``test_estimator_torch_training.py`` and its neighbour for Lightning."""

from __future__ import annotations

from typing import Any, Dict, List

import estimator_samples as samples
import pytest
import torch
from estimator_samples import LR, RANKS
from farandole.spark.lightning import training as of_lightning
from farandole.spark.torch import training as of_torch
from test_estimator_lightning_training import Regression, plan_of

STEPS = samples.steps_of(samples.ArrayModule.bounds, 4)


@pytest.fixture(scope="module")
def results() -> Dict[str, List[Any]]:
    """What each rank returned for each plan."""
    net = samples.network()
    plain = net, torch.optim.SGD(net.parameters(), lr=LR, momentum=0.5)
    return samples.trained_on_ranks(
        {
            "torch": (samples.plan_of(epochs=2, rows=(64, 64)), of_torch.Training(*plain)),
            "lightning": (plan_of(epochs=2, rows=(64, 64)), of_lightning.Training(Regression(), None)),
            "plain": (plan_of(sample_weight_col="w", metrics=[samples.absolute_error]), of_lightning.Training(*plain)),
        }
    )


def returned(results: Any, name: str) -> Any:
    """The trained network and the history."""
    content = samples.content_of(results[name])
    if name == "torch":
        net = samples.network()
        return of_torch.returned(of_torch.Training(net, torch.optim.SGD(net.parameters(), momentum=0.5)), content)[::2]
    model, history = of_lightning.returned(
        of_lightning.Training(samples.network() if name == "plain" else Regression(), None), content
    )
    return getattr(model, "net", model), history


def assert_same(net: torch.nn.Module, expected: torch.nn.Module) -> None:
    torch.testing.assert_close(net.state_dict(), expected.state_dict(), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", ["torch", "lightning"])
def test_ranks_with_uneven_rows_train_as_one_process_does_with_all_rows_of_each_step(results: Any, name: str) -> None:
    net, history = returned(results, name)
    assert sorted(row for step in STEPS for row in step) == list(range(64))
    assert_same(net, samples.trained_by_hand(STEPS, LR * RANKS, epochs=2))
    assert [each["epoch"] for each in history] == [0, 1]


def test_losses_and_metrics_are_means_over_rows(results: Any) -> None:
    net, (_, last) = returned(results, "torch")
    assert set(last["train"]) == {"loss", "absolute_error"}
    errors = samples.errors_of(net)
    assert last["validation"]["loss"] == pytest.approx(float((errors**2).mean()), rel=1e-5)
    assert last["validation"]["absolute_error"] == pytest.approx(float(errors.abs().mean()), rel=1e-5)


def test_values_that_a_module_logs_are_means_over_rows(results: Any) -> None:
    net, (first, last) = returned(results, "lightning")
    batches = [size for start, stop in ((0, 13), (13, 40), (40, 64)) for size in sizes(stop - start, 4)]
    assert first["train"]["rows"] == pytest.approx(sum(size * size for size in batches) / 64)
    assert set(first["train"]) == {"rows", "loss"} and set(first["validation"]) == {"val_error"}
    assert last["validation"]["val_error"] == pytest.approx(float(samples.errors_of(net).abs().mean()), rel=1e-5)


def sizes(rows: int, size: int) -> List[int]:
    return [min(size, rows - start) for start in range(0, rows, size)]


def test_a_plain_model_trains_by_lightning_with_its_optimizer_its_loss_and_weights_of_rows(results: Any) -> None:
    net, (record,) = returned(results, "plain")
    assert_same(net, samples.trained_by_hand(STEPS, LR * RANKS, weights=samples.WEIGHTS))
    assert set(record["train"]) == {"loss", "absolute_error"}
