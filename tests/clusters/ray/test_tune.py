"""Trials of Ray Tune with several workers."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict

import numpy
import pytest
from horovod.ray.tune import DistributedTrainableCreator
from ray import tune
from ray.tune.schedulers import AsyncHyperBandScheduler, PopulationBasedTraining
from ray.tune.search.bayesopt import BayesOptSearch

pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AIR_NEW_OUTPUT", "0")


def tuner(trainable: Any, folder: Path, space: Dict[str, Any], config: Any = None, **options: Any) -> tune.ResultGrid:
    """Runs all trials, and stores their results in a folder."""
    run_config = tune.RunConfig(storage_path=str(folder), name="trials", verbose=0, **options)
    return tune.Tuner(trainable, param_space=space, tune_config=config, run_config=run_config).fit()


def train(config: Dict[str, Any]) -> None:
    """Reports the sum of a value of each rank, in two steps. All ranks call ``report``."""
    import farandole.numpy as hvd

    hvd.init()
    for step in range(2):
        total = hvd.allreduce(numpy.full(1, config["value"] + step), op=hvd.Sum)[0]
        tune.report({"total": float(total), "size": hvd.size(), "trial": tune.get_context().get_trial_id()})


@pytest.mark.slow
def test_the_older_function_and_spellings_work(tmp_path: Path) -> None:
    trainable = DistributedTrainableCreator(train, num_slots=2, num_cpus_per_slot=1, use_gpu=True, num_gpus_per_slot=2)
    analysis = tune.run(
        trainable, config={"value": tune.uniform(1, 1)}, storage_path=str(tmp_path), name="older", verbose=0
    )
    assert [trial.last_result["total"] for trial in analysis.trials] == [4.0]
    bundles = trainable._resources.bundles
    assert bundles == [{"CPU": 1.0, "GPU": 2.0}] * 2


def learn(config: Dict[str, Any]) -> None:
    """Adds the configured rate in each step, and stores the sum in a checkpoint."""
    import farandole.numpy as hvd

    hvd.init()
    state = {"step": 0, "sum": 0.0}
    checkpoint = tune.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            state = json.loads(Path(folder, "state.json").read_text())
    while state["step"] < 3:
        state["step"] += 1
        state["sum"] += float(hvd.allreduce(numpy.full(1, config["rate"]))[0])
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "state.json").write_text(json.dumps(state))
            tune.report(dict(state), checkpoint=tune.Checkpoint.from_directory(folder))
        if state["step"] == config.get("fails_at"):
            raise LookupError(f"failed at step {state['step']}")


@pytest.mark.slow
def test_a_trial_that_fails_resumes_from_its_checkpoint(tmp_path: Path) -> None:
    results = tuner(DistributedTrainableCreator(learn, num_workers=2), tmp_path, {"rate": 2.0, "fails_at": 2})
    (problem,) = results.errors
    assert "raised LookupError: failed at step 2" in str(problem)
    assert results[0].metrics["sum"] == 4.0
    restored = tune.Tuner.restore(
        str(tmp_path / "trials"),
        trainable=DistributedTrainableCreator(learn, num_workers=2),
        param_space={"rate": 2.0, "fails_at": 2},
        resume_errored=True,
    ).fit()
    assert restored.errors == []
    assert (restored[0].metrics["step"], restored[0].metrics["sum"]) == (3, 6.0)
    with restored[0].checkpoint.as_directory() as folder:
        assert json.loads(Path(folder, "state.json").read_text()) == {"step": 3, "sum": 6.0}


def endless(config: Dict[str, Any]) -> None:
    import farandole.numpy as hvd

    hvd.init()
    while True:
        total = float(hvd.allreduce(numpy.full(1, config["loss"]), op=hvd.Sum)[0])
        tune.report({"total": total, "size": hvd.size(), "trial": tune.get_context().get_trial_id()})


@pytest.mark.slow
@pytest.mark.parametrize(
    "scheduler",
    [
        lambda: AsyncHyperBandScheduler(max_t=3, grace_period=1),
        lambda: PopulationBasedTraining(perturbation_interval=2, hyperparam_mutations={"loss": [1.0, 2.0]}),
    ],
    ids=["ASHA", "PBT"],
)
def test_schedulers_stop_trials_of_a_grid(tmp_path: Path, scheduler: Callable[[], Any]) -> None:
    config = tune.TuneConfig(metric="total", mode="min", scheduler=scheduler())
    space = {"loss": tune.grid_search([1.0, 2.0])}
    trainable = DistributedTrainableCreator(endless, num_workers=2)
    results = tuner(trainable, tmp_path, space, config, stop={"training_iteration": 3})
    assert results.errors == []
    assert results.get_best_result().metrics["total"] == 2.0
    assert max(result.metrics["training_iteration"] for result in results) == 3
    assert [result.metrics["size"] for result in results] == [2, 2]
    assert [result.metrics["trial"] for result in results] == [result.metrics["trial_id"] for result in results]


def near(config: Dict[str, Any]) -> None:
    """Reports the distance of the rate from 1 as its sum over the ranks."""
    import farandole.numpy as hvd

    hvd.init()
    distance = float(hvd.allreduce(numpy.full(1, abs(config["rate"] - 1)), op=hvd.Sum)[0])
    tune.report({"distance": distance, "size": hvd.size()})


@pytest.mark.slow
@pytest.mark.parametrize(
    "search", [lambda: None, lambda: BayesOptSearch(random_search_steps=1)], ids=["random", "Bayes"]
)
def test_rates_are_searched(tmp_path: Path, search: Callable[[], Any]) -> None:
    config = tune.TuneConfig(metric="distance", mode="min", num_samples=2, search_alg=search(), max_concurrent_trials=2)
    trainable = DistributedTrainableCreator(near, num_workers=2)
    results = tuner(trainable, tmp_path, {"rate": tune.uniform(0, 4)}, config)
    assert results.errors == []
    rates = [result.config["rate"] for result in results]
    assert len(set(rates)) == 2
    assert all(0 <= rate <= 4 for rate in rates)
    assert [result.metrics["distance"] for result in results] == pytest.approx([2 * abs(rate - 1) for rate in rates])
    assert results.get_best_result().config["rate"] == min(rates, key=lambda rate: abs(rate - 1))


def test_contradictions_are_refused_before_trials() -> None:
    with pytest.raises(ValueError, match="gpus_per_worker is 1, but use_gpu is not set"):
        DistributedTrainableCreator(train, num_workers=2, num_gpus_per_worker=1)


def test_workers_on_several_hosts_are_reserved_by_host() -> None:
    trainable = DistributedTrainableCreator(train, num_hosts=2, num_workers=3)
    factory = trainable._resources
    assert factory.bundles == [{"CPU": 3.0}] * 2
    assert factory.strategy == "STRICT_SPREAD"
    assert factory.head_bundle_is_empty
